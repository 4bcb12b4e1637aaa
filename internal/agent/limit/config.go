//go:build linux

package limit

import (
	"flag"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/oom"
	"github.com/berth-dev/berth/internal/cgroup"
)

// Config is what the host says of the limits of a place.
type Config struct {
	memory oom.Group
	spare  int
}

// Flags adds the flags that say it.
func (c *Config) Flags(f *flag.FlagSet) {
	f.StringVar(&c.memory.Dir, "memory-group", "", "directory of the memory control group that the place is in")
	f.BoolVar(&c.memory.Own, "memory-own", false, "the place has that group to itself")
	f.IntVar(&c.spare, "spare-threads", 0, "threads to have before a limit on processes is met")
}

// Watch begins to watch for memory that runs out. The host says where that is counted; in
// a container, which is a group of its own, it is found. It is nil where nothing can be
// read.
func (c *Config) Watch(container bool) *oom.Watch {
	group := c.memory
	if group.Dir == "" && container {
		if host, err := cgroup.Discover(); err == nil {
			group = oom.Group{Dir: host.MemoryGroup(), Own: true}
		}
	}
	return oom.Open(group)
}

// maxSpare bounds the threads that are made ahead.
const maxSpare = 64

// SpareThreads makes the runtime have the threads that the host asks for, beside those
// that run now. It keeps them, and a program for which it cannot make one when it needs
// it is ended by it: where commands may use up all the processes that the place can have,
// they are had before.
func (c *Config) SpareThreads() {
	n := min(c.spare, maxSpare)
	gate := make([]int, 2)
	if n <= 0 || unix.Pipe2(gate, unix.O_CLOEXEC) != nil {
		return
	}
	var here, over sync.WaitGroup
	here.Add(n)
	for range n {
		over.Go(func() {
			here.Done()
			// A read that blocks in the kernel keeps its thread.
			_, _ = unix.Read(gate[0], make([]byte, 1))
		})
	}
	here.Wait()
	unix.Close(gate[1])
	over.Wait()
	unix.Close(gate[0])
}
