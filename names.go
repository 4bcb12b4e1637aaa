package berth

import (
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// The everyday names of packages spec and driver.
type (
	Spec      = spec.Spec
	Key       = spec.Key
	Limits    = spec.Limits
	Hardening = spec.Hardening
	Isolation = spec.Isolation
	Network   = spec.Network
	Command   = spec.Command
	Signal    = spec.Signal
	Exit      = spec.Exit
	Running   = spec.Running
	Caps      = spec.Caps
	Status    = spec.Status
	Owned     = spec.Owned
	Progress  = spec.Progress
	JobInfo   = spec.Job
	JobState  = spec.JobState
	LogWindow = spec.LogWindow
	LogInfo   = spec.LogInfo
	Port      = spec.Port

	Mount         = spec.Mount
	PublishedPort = spec.PublishedPort
	Protocol      = spec.Protocol

	Snapshot = spec.Snapshot
	Build    = spec.Build
	Image    = spec.Image
	Pruned   = spec.Pruned

	Event      = spec.Event
	EventKind  = spec.EventKind
	EventQuery = spec.EventQuery

	KillOutcome = spec.KillOutcome

	TerminalOptions = spec.TerminalOptions
	TerminalSize    = spec.TerminalSize
	TerminalInfo    = spec.Terminal
	TerminalEvent   = spec.TerminalEvent

	Error = spec.Error
	Code  = spec.Code

	Driver           = driver.Driver
	Stdio            = driver.Stdio
	Log              = driver.Log
	Authority        = driver.Authority
	ProvisionOptions = driver.ProvisionOptions
	AttachOptions    = driver.AttachOptions
	ReapOptions      = driver.ReapOptions
	SnapshotOptions  = driver.SnapshotOptions
	PrepareOptions   = driver.PrepareOptions
)

// The isolation levels and network policies; see package spec.
const (
	IsolationNone     = spec.IsolationNone
	IsolationGuard    = spec.IsolationGuard
	IsolationJail     = spec.IsolationJail
	IsolationStandard = spec.IsolationStandard
	IsolationStrict   = spec.IsolationStrict

	NetworkNone    = spec.NetworkNone
	NetworkLimited = spec.NetworkLimited
	NetworkOpen    = spec.NetworkOpen
)

// The states of a job; see package spec.
const (
	JobRunning = spec.JobRunning
	JobExited  = spec.JobExited
	JobKilled  = spec.JobKilled
	JobLost    = spec.JobLost
)

// What is known after a tree was ended; see package spec.
const (
	KillTerminated = spec.KillTerminated
	KillExited     = spec.KillExited
	KillUnknown    = spec.KillUnknown
)

// The sentinels that callers compare with; package spec has one for each code.
var (
	ErrInvalid        = spec.ErrInvalid
	ErrInvalidPath    = spec.ErrInvalidPath
	ErrNotFound       = spec.ErrNotFound
	ErrFileNotFound   = spec.ErrFileNotFound
	ErrExists         = spec.ErrExists
	ErrTooLarge       = spec.ErrTooLarge
	ErrPermission     = spec.ErrPermission
	ErrUnsupported    = spec.ErrUnsupported
	ErrSpecMismatch   = spec.ErrSpecMismatch
	ErrStaleOwner     = spec.ErrStaleOwner
	ErrUnavailable    = spec.ErrUnavailable
	ErrUnknownOutcome = spec.ErrUnknownOutcome
	ErrStartFailed    = spec.ErrStartFailed
)

// Shell returns the argv that runs script with /bin/sh, not as a login shell.
func Shell(script string) []string { return spec.Shell(script) }

// ShellWith is Shell with another shell that knows -c.
func ShellWith(shell, script string) []string { return spec.ShellWith(shell, script) }
