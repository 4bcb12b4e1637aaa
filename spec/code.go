package spec

import "fmt"

// Code says how something failed. Codes are stable: their strings travel on the
// wire, in JSON and in logs. They are at most twenty, and the table below is the
// only place that says what a code means outside Go.
type Code string

// The codes.
const (
	CodeInvalid        Code = "invalid"         // the request makes no sense; nothing was done
	CodeInvalidPath    Code = "invalid_path"    // a path that is empty, holds NUL, or cannot be a working directory
	CodeNotFound       Code = "not_found"       // no such sandbox, command or job, or it is not yours
	CodeFileNotFound   Code = "file_not_found"  // no such file inside the place
	CodeExists         Code = "exists"          // the name is taken: by a file, or by a foreign sandbox
	CodeIsDirectory    Code = "is_directory"    // a directory where a file was asked for
	CodeNotDirectory   Code = "not_directory"   // a file stands where a directory is needed, at any depth
	CodeNotRegular     Code = "not_regular"     // a FIFO, a device, a socket or (where stated) a symbolic link
	CodeNotReplaceable Code = "not_replaceable" // a mount point or a device: it cannot be replaced by a rename
	CodeNotWritable    Code = "not_writable"    // the place refuses the write: permissions or a read-only file system
	CodeTooLarge       Code = "too_large"       // over a stated cap; nothing was cut silently
	CodeNoSpace        Code = "no_space"        // the place's disk, inodes or quota are used up
	CodePermission     Code = "permission"      // an engine, a host or a file refuses access
	CodeUnsupported    Code = "unsupported"     // what was asked for cannot be enforced or done here; nothing was created
	CodeSpecMismatch   Code = "spec_mismatch"   // the sandbox exists with another spec; nothing was changed
	CodeStaleOwner     Code = "stale_owner"     // a newer owner has taken over; nothing was done
	CodeUnavailable    Code = "unavailable"     // an engine, host or guest cannot be reached; nothing ran
	CodeUnknownOutcome Code = "unknown_outcome" // it was sent and may have happened; the answer was lost
	CodeStartFailed    Code = "start_failed"    // the program could not be started: absent, or not executable
	CodeInternal       Code = "internal"        // a broken invariant or a guest that breaks the protocol
)

// CodeInfo is one row of the code table.
type CodeInfo struct {
	Code Code
	// Text is the phrase that stands in an error message.
	Text string
	// HTTPStatus is the status of an HTTP reply that carries the code.
	HTTPStatus int
	// ExitCode is the exit status of a berth command that fails with the code.
	// The verbs that pass a command's own exit status through (run, exec) use
	// 125 for all of them but start_failed.
	ExitCode int
	// MCPError is the JSON-RPC error code of an MCP reply.
	MCPError int
	// Retryable is true where the same request may succeed later and is known
	// not to have taken effect.
	Retryable bool
}

// codeTable is the one table: everything that depends on a code is derived from
// it. Rows keep their order and their numbers; new ones go to the end.
var codeTable = [...]CodeInfo{
	{CodeInvalid, "invalid", 400, 2, -32602, false},
	{CodeInvalidPath, "invalid path", 400, 3, -32602, false},
	{CodeNotFound, "not found", 404, 4, -32001, false},
	{CodeFileNotFound, "no such file", 404, 5, -32002, false},
	{CodeExists, "already exists", 409, 6, -32003, false},
	{CodeIsDirectory, "is a directory", 409, 7, -32004, false},
	{CodeNotDirectory, "not a directory", 409, 8, -32005, false},
	{CodeNotRegular, "not a regular file", 409, 9, -32006, false},
	{CodeNotReplaceable, "not replaceable", 409, 10, -32007, false},
	{CodeNotWritable, "not writable", 403, 11, -32008, false},
	{CodeTooLarge, "too large", 413, 12, -32009, false},
	{CodeNoSpace, "no space", 507, 13, -32010, true},
	{CodePermission, "permission denied", 403, 14, -32011, false},
	{CodeUnsupported, "unsupported", 501, 15, -32012, false},
	{CodeSpecMismatch, "spec mismatch", 409, 16, -32013, false},
	{CodeStaleOwner, "stale owner", 409, 17, -32014, false},
	{CodeUnavailable, "unavailable", 503, 18, -32015, true},
	{CodeUnknownOutcome, "unknown outcome", 502, 19, -32016, false},
	{CodeStartFailed, "cannot start", 422, 127, -32017, false},
	{CodeInternal, "internal error", 500, 70, -32603, false},
}

// Codes returns the whole table, in its stable order.
func Codes() []CodeInfo { return append([]CodeInfo(nil), codeTable[:]...) }

// Info returns the code's row. An unknown code is answered with the row of
// CodeInternal, so that a newer peer's code is never taken for success.
func (c Code) Info() CodeInfo {
	for _, row := range codeTable {
		if row.Code == c {
			return row
		}
	}
	return codeTable[len(codeTable)-1]
}

// Known reports whether c is in the table.
func (c Code) Known() bool { return c.Info().Code == c }

func (c Code) String() string { return string(c) }

// sentinel is the error value of a code: errors.Is compares a *Error with it.
type sentinel Code

func (s sentinel) Error() string { return Code(s).Info().Text }

// GoString lets a test failure name the sentinel.
func (s sentinel) GoString() string { return fmt.Sprintf("spec.Err(%s)", string(s)) }

// The sentinels, one for each code: errors.Is(err, spec.ErrNotFound).
var (
	ErrInvalid        error = sentinel(CodeInvalid)
	ErrInvalidPath    error = sentinel(CodeInvalidPath)
	ErrNotFound       error = sentinel(CodeNotFound)
	ErrFileNotFound   error = sentinel(CodeFileNotFound)
	ErrExists         error = sentinel(CodeExists)
	ErrIsDirectory    error = sentinel(CodeIsDirectory)
	ErrNotDirectory   error = sentinel(CodeNotDirectory)
	ErrNotRegular     error = sentinel(CodeNotRegular)
	ErrNotReplaceable error = sentinel(CodeNotReplaceable)
	ErrNotWritable    error = sentinel(CodeNotWritable)
	ErrTooLarge       error = sentinel(CodeTooLarge)
	ErrNoSpace        error = sentinel(CodeNoSpace)
	ErrPermission     error = sentinel(CodePermission)
	ErrUnsupported    error = sentinel(CodeUnsupported)
	ErrSpecMismatch   error = sentinel(CodeSpecMismatch)
	ErrStaleOwner     error = sentinel(CodeStaleOwner)
	ErrUnavailable    error = sentinel(CodeUnavailable)
	ErrUnknownOutcome error = sentinel(CodeUnknownOutcome)
	ErrStartFailed    error = sentinel(CodeStartFailed)
	ErrInternal       error = sentinel(CodeInternal)
)
