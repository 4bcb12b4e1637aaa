package spec

import "time"

// State is what a place is doing.
type State string

// The states of a place.
const (
	StateRunning State = "running"
	StateStopped State = "stopped" // it exists, its guest does not run; Provision starts it
	StatePaused  State = "paused"
	StateUnknown State = "unknown" // it exists and cannot be asked
)

// Status is what a live place says of itself.
type Status struct {
	State    State
	Started  time.Time     // by the place's clock
	Uptime   time.Duration // monotonic
	Clients  int           // connections to the guest, this one included
	Commands int           // commands that run now
	// IdleIn and ExpiresIn are the times left until the guest ends the place;
	// negative: it never does.
	IdleIn, ExpiresIn time.Duration
	// UnusedFor is how long no command has run, and no client has asked for anything but
	// how things are: 0 while one is there that does, or where it is not known. Events,
	// watches and lists only look.
	UnusedFor time.Duration
	// GuestVersion is the version of the guest binary; Notice is what a person
	// should know about this place, or "".
	GuestVersion string
	Notice       string
	// Writable and Hidden are the paths that guard lets commands write, and those
	// that it hides from them, as they were when the guest started; empty where
	// there is no such wall.
	Writable, Hidden []string
	// Image, User, Workdir and Mounts are what a place that is a container was made from and
	// with. User is as engines write it: a name or a number, maybe with :GROUP; "": root.
	Image, User, Workdir string
	Mounts               []Mount
	// Limits are those in force; 0: none.
	Limits Limits
	// MemoryBytes is what the place uses now, MemoryPeakBytes the most that it has used
	// at a time since its start, OOMKills how many of its processes were killed for want
	// of memory. 0 where the kernel does not count it for the place alone.
	MemoryBytes, MemoryPeakBytes, OOMKills int64
}

// Owned is one sandbox that carries our owner label, running or not.
type Owned struct {
	Key Key    `json:"key"`
	ID  string `json:"id"`
	// Backend is the driver's name.
	Backend string `json:"backend"`
	State   State  `json:"state"`
	// Ephemeral: it was made without a key; Key was generated.
	Ephemeral bool      `json:"ephemeral,omitempty"`
	Image     string    `json:"image,omitempty"`
	Workdir   string    `json:"workdir,omitempty"`
	Isolation Isolation `json:"isolation,omitempty"`
	Created   time.Time `json:"created,omitzero"`
	// IdleTimeout and TTL are as provisioned; 0: never.
	IdleTimeout time.Duration `json:"idle_timeout_ns,omitempty"`
	TTL         time.Duration `json:"ttl_ns,omitempty"`
}

// Progress is one step of something that takes longer than a second.
type Progress struct {
	Step    string // "guest: build", "pull", "start"
	Part    string // what of it goes on beside other parts: a layer of an image; usually ""
	Message string
	Done    int64 // of Total; 0 of 0 where it is not known
	Total   int64
}
