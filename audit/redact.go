package audit

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// redacted stands in place of what a secret covers.
const redacted = "[redacted]"

// redactor takes secrets out of texts.
type redactor struct {
	forms []string // in which they are looked for
}

func newRedactor(secrets []string) *redactor {
	r := &redactor{}
	for _, s := range secrets {
		for _, form := range formsOf(s) {
			if telling(form) {
				r.forms = append(r.forms, form)
			}
		}
	}
	slices.Sort(r.forms)
	r.forms = slices.Compact(r.forms)
	return r
}

// span is a stretch of a text.
type span struct{ from, to int }

// text returns s without what the secrets cover.
func (r *redactor) text(s string) string {
	var found []span
	for _, form := range r.forms {
		for at := 0; ; at++ { // its occurrences may overlap too
			k := strings.Index(s[at:], form)
			if k < 0 {
				break
			}
			at += k
			if n := len(found); n > 0 && found[n-1].to >= at && found[n-1].from <= at {
				found[n-1].to = max(found[n-1].to, at+len(form))
			} else {
				found = append(found, span{at, at + len(form)})
			}
		}
	}
	return without(s, found)
}

// without returns s without the stretches that were found.
func without(s string, found []span) string {
	if len(found) == 0 {
		return s
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var out strings.Builder
	end := -1 // of the last stretch that was taken out
	for _, f := range found {
		if f.from > end {
			out.WriteString(s[max(end, 0):f.from])
			out.WriteString(redacted)
		}
		end = max(end, f.to)
	}
	out.WriteString(s[end:])
	return out.String()
}

// texts is text for each of a list, which is not changed.
func (r *redactor) texts(list []string) []string {
	out := slices.Clone(list)
	for i, s := range out {
		out[i] = r.text(s)
	}
	return out
}

// cause returns the message of an error without what the secrets cover; "" for nil. What
// the error is made of is searched before its message quotes and cuts it.
func (r *redactor) cause(err error) string {
	if err == nil {
		return ""
	}
	return r.beginnings(r.text(r.clean(err).Error()))
}

// clean returns an error that says what err says, without what the secrets cover.
func (r *redactor) clean(err error) error {
	if e, ok := err.(*spec.Error); ok { //nolint:errorlint // what wraps one has a text of its own
		c := *e
		c.Op, c.Backend, c.ID, c.Path = r.text(e.Op), r.text(e.Backend), r.text(e.ID), r.text(e.Path)
		if e.Err != nil {
			c.Err = r.clean(e.Err)
		}
		return &c
	}
	text := err.Error()
	if inner := errors.Unwrap(err); inner != nil && inner.Error() != "" {
		if before, after, ok := strings.Cut(text, inner.Error()); ok {
			return errors.New(r.text(before) + r.clean(inner).Error() + r.text(after))
		}
	}
	return errors.New(r.text(text))
}

// beginnings returns a message without the beginnings of secrets at its end and before dots
// that say that it goes on: another side has cut it, which knew of no secret.
func (r *redactor) beginnings(s string) string {
	const dots = "..."
	var found []span
	for at := 0; at <= len(s); at++ {
		k := strings.Index(s[at:], dots)
		if k < 0 {
			k = len(s) - at
		}
		at += k
		end := len(strings.TrimRight(s[:at], "\uFFFD")) // of a character that was cut too
		longest := 0
		for _, form := range r.forms {
			longest = max(longest, overlap(s[:end], form))
		}
		if longest > 0 {
			found = append(found, span{end - longest, at})
		}
	}
	return without(s, found)
}

// overlap returns how many bytes at the end of s are the beginning of form; 0 if those tell
// nothing.
func overlap(s, form string) int {
	for n := min(len(s), len(form)-1); n >= MinSecretBytes; n-- {
		if strings.HasSuffix(s, form[:n]) && telling(form[:n]) {
			return n
		}
	}
	return 0
}
