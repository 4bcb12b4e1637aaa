package audit

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// formsOf returns in which forms a secret may stand in a text: as it is, without the white
// space around it, and as messages show it, and each of them escaped and encoded.
func formsOf(secret string) []string {
	shown := strings.Map(func(r rune) rune { // as spec.Error shows what others say
		if r < ' ' || (r >= 0x7f && r < 0xa0) {
			return ' '
		}
		return r
	}, secret)
	var forms []string
	for _, value := range []string{secret, strings.TrimSpace(secret), printable(secret), shown, strings.TrimSpace(shown)} {
		forms = append(forms, value)
		quoted := quotedForms(value)
		forms = append(forms, quoted...)
		for _, once := range quoted { // a message in a message
			forms = append(forms, quotedForms(once)...)
		}
		forms = append(forms, encodedForms(value)...)
	}
	return forms
}

// telling reports whether a form says enough to be looked for: some have nothing left but
// what stands for every byte alike.
func telling(form string) bool {
	return len(strings.TrimSpace(strings.ReplaceAll(form, "\uFFFD", ""))) >= MinSecretBytes
}

// quotedForms returns what stands between the quotes of a text in Go, in JSON and in a shell.
func quotedForms(s string) []string {
	inner := func(quoted string) string { return quoted[1 : len(quoted)-1] }
	ascii := inner(strconv.QuoteToASCII(s))
	return []string{
		inner(strconv.Quote(s)), inner(strconv.QuoteToGraphic(s)), ascii,
		inner(jsonOf(s, true)), inner(jsonOf(s, false)), inner(asciiJSON(s)),
		strings.ReplaceAll(s, "'", `'\''`), strings.ReplaceAll(s, "'", `'"'"'`),
	}
}

func jsonOf(s string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	_ = e.Encode(s) // a string has a form, and a buffer takes it
	return strings.TrimSuffix(b.String(), "\n")
}

// asciiJSON is JSON as those write it who use nothing but ASCII.
func asciiJSON(s string) string {
	var b strings.Builder
	for _, r := range jsonOf(s, false) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return b.String()
}

// percent is a byte as URLs escape it.
var percent = regexp.MustCompile(`%[0-9A-F]{2}`)

// encodedForms returns s as URLs have it, in base64 and in hexadecimal digits.
func encodedForms(s string) []string {
	digits := hex.EncodeToString([]byte(s))
	forms := []string{digits, strings.ToUpper(digits), fmt.Sprintf("% x", s), fmt.Sprintf("% X", s)}
	for _, form := range []string{
		url.QueryEscape(s), url.PathEscape(s), (&url.URL{Path: s}).EscapedPath(), strings.TrimPrefix(url.UserPassword("", s).String(), ":"),
	} {
		forms = append(forms, form, percent.ReplaceAllStringFunc(form, strings.ToLower))
	}
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		forms = append(forms, e.EncodeToString([]byte(s)))
		for before := range 3 { // bytes of the same group that come first
			// What a digit shares with a byte outside of s is not known.
			const bits = 6
			from, to := (8*before+bits-1)/bits, 8*(before+len(s))/bits
			if from < to {
				forms = append(forms, e.EncodeToString(append(make([]byte, before), s...))[from:to])
			}
		}
	}
	return forms
}
