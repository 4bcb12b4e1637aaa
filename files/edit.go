package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// Hash returns the SHA-256 of a regular file as 64 hex digits.
func Hash(ctx context.Context, fsys FS, name string) (string, error) {
	f, err := fsys.Open(ctx, name, OpenOptions{})
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", spec.Wrap(err, "", "", "", name)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// EditOptions modify Edit and Replace.
type EditOptions struct {
	// SHA256 is what the caller believes the file to hold, as Hash gives it or in
	// capital digits; if it holds something else the edit is CodeExists. "": anything.
	SHA256 string
	// MaxBytes refuses a larger file with CodeTooLarge; 0: DefaultReadLimit.
	MaxBytes int64
	// Sync makes the edit durable.
	Sync bool
}

// Edited is what an edit has done.
type Edited struct {
	Before, After string // the SHA-256 of the file
	Count         int    // of Replace: how many replacements were made
}

// Edit reads a regular file, gives its bytes to change, and makes the file hold what
// that returns, atomically and with the mode that it has. A symbolic link is
// CodeNotRegular: an edit of it would replace it.
//
// A file that has changed since it was read is left alone: CodeExists. What change
// answers as an error ends the edit with it. change may keep what it is given.
func Edit(ctx context.Context, fsys FS, name string, o EditOptions, change func(data []byte) ([]byte, error)) (Edited, error) {
	limit := o.MaxBytes
	if limit <= 0 {
		limit = DefaultReadLimit
	}
	data, err := readAll(ctx, fsys, name, OpenOptions{MaxBytes: limit, NoFollow: true})
	if err != nil {
		return Edited{}, err
	}
	e := Edited{Before: hashOf(data)}
	if o.SHA256 != "" && !strings.EqualFold(o.SHA256, e.Before) {
		return Edited{}, &spec.Error{Path: name, Code: spec.CodeExists, Err: errors.New("the file does not hold what was expected"), Hint: "read the file again and repeat the edit"}
	}
	data, err = change(data)
	if err != nil {
		return Edited{}, spec.Wrap(err, "", "", "", name)
	}
	if e.After = hashOf(data); e.After == e.Before {
		return e, nil
	}
	return e, WriteFile(ctx, fsys, name, data, WriteOptions{IfSHA256: e.Before, NoParents: true, Sync: o.Sync})
}

// ReplaceOptions modify Replace.
type ReplaceOptions struct {
	EditOptions
	// All replaces every occurrence, from left to right without overlaps, instead
	// of the only one.
	All bool
}

// Replace is an Edit that replaces oldText by newText. Text that does not occur is
// CodeInvalid, and so is text that occurs more than once, overlapping itself or not,
// unless o.All is set: a Replace that returns no error has replaced something.
func Replace(ctx context.Context, fsys FS, name string, oldText, newText []byte, o ReplaceOptions) (Edited, error) {
	count := 0
	e, err := Edit(ctx, fsys, name, o.EditOptions, func(data []byte) ([]byte, error) {
		at := bytes.Index(data, oldText)
		switch {
		case len(oldText) == 0:
			return nil, spec.New(spec.CodeInvalid, "the text to be replaced is empty")
		case bytes.Equal(oldText, newText):
			return nil, spec.New(spec.CodeInvalid, "the new text is the old one")
		case at < 0:
			return nil, spec.New(spec.CodeInvalid, "the text to be replaced does not occur")
		case !o.All && bytes.Contains(data[at+1:], oldText):
			return nil, &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("the text to be replaced occurs more than once: %d times", occurrences(data, oldText)), Hint: "give more of the text around it, or replace all"}
		}
		count = bytes.Count(data, oldText)
		return bytes.ReplaceAll(data, oldText, newText), nil
	})
	e.Count = count
	if err != nil {
		return Edited{}, err
	}
	return e, nil
}

// occurrences counts text in data, those that overlap too.
func occurrences(data, text []byte) int {
	n := 0
	for at := bytes.Index(data, text); at >= 0; at = bytes.Index(data, text) {
		n++
		data = data[at+1:]
	}
	return n
}
