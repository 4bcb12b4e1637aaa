//go:build linux

package procstat

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// MountPoints returns where the mounts of a process are, as it sees them.
func MountPoints(pid int) (map[string]bool, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/mountinfo")
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for line := range bytes.Lines(data) {
		const mountPoint = 4 // proc_pid_mountinfo(5)
		if fields := bytes.Fields(line); len(fields) > mountPoint {
			out[unescape(string(fields[mountPoint]))] = true
		}
	}
	return out, nil
}

// unescape takes back the kernel's octal escapes of blanks and backslashes.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
