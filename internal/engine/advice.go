package engine

import "strings"

// fullDisk is what the kernel says at the end of an engine's answer. Whatever else stands
// in an answer may come from an image.
const fullDisk = ": no space left on device"

// advice is what can be done about an answer of the engine. Its words choose a hint, and
// nothing else.
func (e *Engine) advice(text string) string {
	for _, a := range []struct{ words, hint string }{
		{fullDisk, "the disk of the engine's machine is full: remove what nobody needs (berth prune; " + e.Name + " system df shows what there is), or give it more"},
		{"address already in use", "a port is published that is taken on the engine's machine: choose another, or let the engine choose"},
		{"port is already allocated", "a port is published that another container has: choose another, or let the engine choose"},
		{"from daemon: task ", "the engine has lost the sandbox's process, as it does when it crashes while it starts one: remove the sandbox and provision it again (berth down)"},
		{"opening seccomp profile failed", "Podman takes a profile as a file of its own machine: its service has to run on this one, as a user who can read this user's files"},
		{"no matching entries in passwd file", "the image has no such user: choose one by its number (--sandbox-user 1000)"},
	} {
		if strings.Contains(text, a.words) {
			return a.hint
		}
	}
	return ""
}
