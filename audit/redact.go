package audit

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
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
		for _, value := range []string{s, strings.TrimSpace(s)} {
			for _, form := range []string{
				value, url.QueryEscape(value), url.PathEscape(value),
				base64.RawStdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)),
				hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value))),
			} {
				if len(form) >= MinSecretBytes {
					r.forms = append(r.forms, form)
				}
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
