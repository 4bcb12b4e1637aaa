package audit_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-dev/berth/audit"
	"github.com/berth-dev/berth/spec"
)

// traces are what no line may hold of a secret.
func traces(secret string) map[string]string {
	inner := func(s string) string { return s[1 : len(s)-1] }
	encoded, err := json.Marshal(secret)
	if err != nil {
		panic(err)
	}
	out := map[string]string{
		"raw": secret, "quoted": inner(strconv.Quote(secret)), "quoted in ASCII": inner(strconv.QuoteToASCII(secret)),
		"quoted in JSON": inner(strconv.Quote(inner(strconv.Quote(secret)))), "JSON": inner(string(encoded)),
		"URL": url.QueryEscape(secret), "path": url.PathEscape(secret), "hex": hex.EncodeToString([]byte(secret)),
	}
	for k := range 3 {
		if len(secret) > k+5 { // the groups that are the secret's alone
			whole := secret[k : k+(len(secret)-k)/3*3]
			out[fmt.Sprintf("base64 from %d", k)] = base64.StdEncoding.EncodeToString([]byte(whole))
			out[fmt.Sprintf("base64 of URLs from %d", k)] = base64.URLEncoding.EncodeToString([]byte(whole))
		}
	}
	for name, form := range out {
		if len(strings.Trim(strings.ReplaceAll(form, `\ufffd`, ""), " \uFFFD")) < 4 {
			delete(out, name) // a JSON text of other bytes tells nothing of them
		}
	}
	return out
}

// said are the errors that name a path, of this side and of another one.
func said(text string) []error {
	inner := &spec.Error{Op: "exec", ID: "id", Path: "/no/" + text, Code: spec.CodeStartFailed, Err: fs.ErrNotExist}
	return []error{
		nil,
		errors.New(text),
		inner,
		errors.New(inner.Error()),
		&spec.Error{Op: "exec", Path: "a" + text + "b", Code: spec.CodeFileNotFound, Err: &fs.PathError{Op: "open", Path: text, Err: fs.ErrNotExist}},
		&spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("it says: %q: %w: %s", text, inner, text)},
		&spec.Error{Code: spec.CodeUnavailable, Err: errors.New(strconv.Quote(strconv.Quote(text)))},
		&spec.Error{Code: spec.CodeUnavailable, Err: errors.New("sh: '" + strings.ReplaceAll(text, "'", `'\''`) + "': not found")},
		fmt.Errorf("%x, % X and %s: %w", text, text, url.PathEscape(text), errors.Join(inner, errors.New(text))),
	}
}

// concealed records text in every field, and checks what the log holds.
func concealed(t *testing.T, secret string) {
	t.Helper()
	log, path := open(t, audit.Options{Secrets: []string{secret}})
	texts := []string{
		secret, "--token=" + secret + ";", strconv.Quote(secret), strconv.QuoteToASCII(secret), url.QueryEscape(secret), hex.EncodeToString([]byte(secret)),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte("x" + secret + "yz")), base64.StdEncoding.EncodeToString([]byte("xy" + secret + "z")),
	}
	if encoded, err := json.Marshal(map[string]string{"token": secret}); err == nil {
		texts = append(texts, string(encoded))
	}
	for _, text := range texts {
		for _, err := range said(secret) {
			r := spec.AuditRecord{
				Args: []string{"x", text}, Dir: text, Env: []string{text}, Path: text, NewPath: text, Err: err, Name: text,
				ID: text, Owner: text, User: text, Sandbox: text, Key: spec.Key(text), Exit: &spec.Exit{HostExecutable: []string{text}},
			}
			if err := log.Record(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, form := range traces(secret) {
		if at := bytes.Index(data, []byte(form)); at >= 0 {
			t.Errorf("the log holds %q, %s: ...%q...", secret, name, data[max(at-80, 0):min(at+len(form)+20, len(data))])
		}
	}
}

// TestErrors defends: an error holds no secret, however it quotes it.
func TestErrors(t *testing.T) {
	for _, secret := range []string{
		`pa"ss\word-ü1`, "tab\tand\nline", "\xffnot\xfeUTF-8\x80", "it's <one> & two", "\x01\x02abcd\x7f", "a\u0085b\u2028c\U0001F600d", `\\\\""`, "\xbcabc\xc3", " padded ",
		"%41%42/+ =", "a\x00b\x00c\x00d",
	} {
		concealed(t, secret)
	}
}

// TestRandomSecrets defends the same of any secret.
func TestRandomSecrets(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for range rounds {
		secret := make([]byte, 4+random.IntN(61))
		for i := range secret {
			secret[i] = byte(random.Uint32())
		}
		if audit.Concealable(string(secret)) {
			concealed(t, string(secret))
		}
	}
}

// FuzzSecret defends the same of the secrets that a fuzzer thinks of.
func FuzzSecret(f *testing.F) {
	f.Add("hunter2")
	f.Fuzz(func(t *testing.T, secret string) {
		if len(secret) >= 8 && len(secret) <= 64 && strings.Trim(secret, secret[:1]) != "" && audit.Concealable(secret) && !strings.ContainsAny("x;:,{}[]", secret) {
			concealed(t, secret)
		}
	})
}

// TestBeginning defends: a length that something was cut to, here or on another side, leaves
// no beginning of a secret.
func TestBeginning(t *testing.T) {
	const secret = `s3cret"-ü-that-is-long`
	log, path := open(t, audit.Options{Secrets: []string{secret}})
	const begin = `s3cr`
	record := func(r spec.AuditRecord) {
		t.Helper()
		if err := log.Record(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for before := range len(secret) + 4 {
		for _, limit := range []int{1024, 4096} { // spec's and the wire's
			long := strings.Repeat("x", limit-before) + secret + "    "
			record(spec.AuditRecord{Err: errors.New(long[:limit])})
			record(spec.AuditRecord{Err: &spec.Error{Code: spec.CodeUnavailable, Err: errors.New(long)}})
			record(spec.AuditRecord{Err: errors.New((&spec.Error{Code: spec.CodeUnavailable, Err: errors.New(long)}).Error() + " (more)")})
			quoted := strconv.Quote(long)
			record(spec.AuditRecord{Err: errors.New(quoted[:limit])})
		}
		record(spec.AuditRecord{Args: []string{strings.Repeat("x", audit.MaxLineBytes/2-before) + secret, secret}})
		record(spec.AuditRecord{Path: strings.Repeat("x", audit.MaxLineBytes/2-before) + secret, NewPath: strings.Repeat("x", audit.MaxLineBytes) + secret})
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if at := bytes.Index(data, []byte(begin)); at >= 0 {
		t.Errorf("the log holds a beginning: %q", data[max(at-40, 0):min(at+60, len(data))])
	}
}

// TestShortSecret defends: what cannot be taken out is refused.
func TestShortSecret(t *testing.T) {
	for secret, want := range map[string]error{"": nil, "abcd": nil, " abcd\n": nil, "abc": spec.ErrInvalid, " abc\n": spec.ErrInvalid, "    ": spec.ErrInvalid, "\xff\xfe\xfd\xfc": nil} {
		log, err := audit.Open(t.TempDir()+"/x", audit.Options{Secrets: []string{secret}})
		if !errors.Is(err, want) {
			t.Errorf("%q: %v; want %v", secret, err, want)
		}
		if err == nil {
			log.Close()
		}
	}
}
