//go:build linux

package confine_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// unlike is a priority below that with which the test was started.
var unlike = func() func(n int) int {
	now, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // the call says 20-n
	if err != nil {
		panic(err)
	}
	return func(n int) int { return 20 - now + n }
}()

// others are the calls that change how a process runs, by its number.
var others = []struct {
	name string
	make func(pid int) error
}{
	{"prlimit", func(pid int) error {
		// A limit that it has as well: the call changes nothing where it works.
		var now unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_CORE, &now); err != nil {
			return err
		}
		return unix.Prlimit(pid, unix.RLIMIT_CORE, &now, nil)
	}},
	{"setpriority", func(pid int) error { return unix.Setpriority(unix.PRIO_PROCESS, pid, unlike(1)) }},
	{"ioprio_set", func(pid int) error { return raw(unix.SYS_IOPRIO_SET, 1, uintptr(pid), 2<<13|7) }},
	{"sched_setaffinity", func(pid int) error {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(0, &set); err != nil {
			return err
		}
		return unix.SchedSetaffinity(pid, &set)
	}},
	{"sched_setscheduler", func(pid int) error {
		const batch = 3
		var none [8]byte
		return raw(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), batch, uintptr(unsafe.Pointer(&none)))
	}},
	{"sched_setparam", func(pid int) error {
		var none [8]byte
		return raw(unix.SYS_SCHED_SETPARAM, uintptr(pid), uintptr(unsafe.Pointer(&none)))
	}},
	{"sched_setattr", func(pid int) error {
		return unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Nice: int32(unlike(2))}, 0)
	}},
}

// threadOf is a thread of a process that is not its first one, nor the caller.
func threadOf(pid int) int {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		if tid, err := strconv.Atoi(task.Name()); err == nil && tid != pid && tid != unix.Gettid() {
			return tid
		}
	}
	return -1
}

// processes changes the guest, another process and itself.
func processes([]string) error {
	runtime.LockOSThread()
	sleeper := exec.Command("sleep", "60")
	if err := sleeper.Start(); err != nil {
		return err
	}
	defer sleeper.Wait()
	defer sleeper.Process.Kill()
	for _, o := range others {
		fmt.Println(o.name, name(o.make(1)), name(o.make(sleeper.Process.Pid)), name(o.make(1<<21-1)), name(o.make(0)), name(o.make(os.Getpid())), name(o.make(unix.Gettid())), name(o.make(threadOf(os.Getpid()))))
	}
	guest, err := os.ReadDir("/proc/1/task")
	if err != nil {
		return err
	}
	for _, thread := range guest {
		tid, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		for _, o := range others {
			if err := o.make(tid); err != unix.EPERM {
				fmt.Println("a thread of the guest:", o.name, name(err))
			}
		}
	}
	var set unix.CPUSet
	set.Set(0)
	err = unix.SchedSetaffinity(sleeper.Process.Pid, &set)
	var now unix.CPUSet
	if err == nil {
		err = unix.SchedGetaffinity(sleeper.Process.Pid, &now)
	}
	nice, niceErr := unix.Getpriority(unix.PRIO_PROCESS, sleeper.Process.Pid)
	fmt.Println("it arrives", now.Count(), name(err), 20-nice == unlike(2), name(niceErr))
	fmt.Println("a group", name(unix.Setpriority(unix.PRIO_PGRP, 1, 1)), name(raw(unix.SYS_IOPRIO_SET, 2, 1, 2<<13|7)))
	fmt.Println("a user", name(unix.Setpriority(unix.PRIO_USER, 0, 1)), name(raw(unix.SYS_IOPRIO_SET, 3, 0, 2<<13|7)))
	fmt.Println("a user by number", name(unix.Setpriority(unix.PRIO_USER, os.Getuid(), 1)))
	return nil
}

// TestOtherProcesses defends: a command changes no limit and no priority of the guest, which
// the kernel lets every process of the same user do. It sets the limits of itself and how
// every other process runs.
func TestOtherProcesses(t *testing.T) {
	var want strings.Builder
	for _, o := range others {
		if o.name == "prlimit" {
			fmt.Fprintln(&want, o.name, "EPERM EPERM EPERM ok ok ok EPERM")
			continue
		}
		fmt.Fprintln(&want, o.name, "EPERM ok ESRCH ok ok ok ok")
	}
	want.WriteString("it arrives 1 ok true ok\n")
	want.WriteString("a group EPERM EPERM\na user EPERM EPERM\na user by number EPERM\n")
	for what, p := range places(t) {
		t.Run(what, func(t *testing.T) {
			if diff := cmp.Diff(want.String(), p.run(t, openDir(t), "processes")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOwnLimits defends: programs with which a command changes itself, or what it starts,
// do so.
func TestOwnLimits(t *testing.T) {
	for script, want := range map[string]string{
		"ulimit -n 77; ulimit -n":                                       "77\n",
		"ulimit -S -c 0; ulimit -c":                                     "0\n",
		"a=$(nice); test $(nice -n 5 nice) = $((a+5)) && echo lower":    "lower\n",
		"taskset -c 0 sh -c 'taskset -cp $$ | grep -o 0$'":              "0\n",
		"chrt -b 0 sh -c 'chrt -p $$ | grep -o BATCH'":                  "BATCH\n",
		"ionice -c 3 ionice":                                            "idle\n",
		"prlimit --nofile=66:66 sh -c 'ulimit -n'":                      "66\n",
		"renice -n 19 -p $$ >/dev/null; nice":                           "19\n",
		"prlimit --pid 1 --nofile >/dev/null && echo read":              "read\n",
		"prlimit --pid 1 --as=1000000:1000000 2>/dev/null || echo left": "left\n",
	} {
		if _, err := exec.LookPath(strings.Fields(script)[0]); err != nil && !strings.HasPrefix(script, "ulimit") && !strings.HasPrefix(script, "a=") {
			continue
		}
		if out := (place{}).run(t, openDir(t), "exec", "sh", "-c", script); out != want {
			t.Errorf("%s: %q, want %q", script, out, want)
		}
	}
}
