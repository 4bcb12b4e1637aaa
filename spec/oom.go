package spec

// OOM explains that the kernel killed a process because memory ran out. It is never
// concluded from an exit status: the kernel's own count of such kills has risen while
// the command ran, or the machine's.
type OOM struct {
	// LimitBytes is the memory limit of the place; 0: it has none of its own.
	LimitBytes int64 `json:"limit_bytes,omitempty"`
	// PeakBytes is the most that the place has used at a time since it was started;
	// 0: not known.
	PeakBytes int64 `json:"peak_bytes,omitempty"`
	// Retryable: it was the machine that ran out, not the place's own limit, so the
	// same command may succeed later. At its own limit it fails the same way again.
	Retryable bool `json:"retryable"`
	// Hint says what cures it, for a person.
	Hint string `json:"hint,omitempty"`
}
