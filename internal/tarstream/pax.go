package tarstream

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// The records of pax that an archive is read by.
const (
	paxPath    = "path"
	paxLink    = "linkpath"
	paxSize    = "size"
	paxModTime = "mtime"
	paxCharset = "hdrcharset"
	paxComment = "comment"
	paxSparse  = "GNU.sparse."

	paxBinary = "BINARY" // of paxCharset: names are bytes
)

// extended is what comes before an entry to say more of it.
type extended struct {
	path, link *string
	size       *int64
	modTime    *time.Time
	pax        bool // a pax header has come
}

func (e *extended) any() bool { return e.pax || e.path != nil || e.link != nil }

// wrongSparse is what parsing says of a record of a sparse file.
const wrongSparse = "a sparse file"

// paxRecords calls take for each record of a pax header; wrong says why it is none.
func paxRecords(data []byte, take func(key, value string) (wrong string)) (wrong string) {
	seen := make(map[string]bool)
	for len(data) > 0 {
		digits, _, ok := bytes.Cut(data, []byte{' '})
		n, err := strconv.Atoi(string(digits))
		if !ok || err != nil || digits[0] == '+' || n <= len(digits)+1 || n > len(data) || data[n-1] != '\n' {
			return "a broken pax record"
		}
		key, value, ok := strings.Cut(string(data[len(digits)+1:n-1]), "=")
		data = data[n:]
		switch {
		case !ok || key == "" || strings.IndexByte(key, 0) >= 0:
			return "a pax record without a name"
		case seen[key]:
			return "two pax records of one name"
		}
		seen[key] = true
		if wrong := take(key, value); wrong != "" {
			return wrong
		}
	}
	return ""
}

// record takes one record of an entry's pax header.
func (e *extended) record(key, value string) (wrong string) {
	ok := true
	switch key {
	case paxPath:
		e.path, ok = &value, value != "" && strings.IndexByte(value, 0) < 0
	case paxLink:
		e.link, ok = &value, value != "" && strings.IndexByte(value, 0) < 0
	case paxSize:
		var n int64
		n, ok = decimal(value)
		e.size, ok = &n, ok && n >= 0
	case paxModTime:
		var t time.Time
		t, ok = paxTime(value)
		e.modTime = &t
	case "atime", "ctime":
		_, ok = paxTime(value)
	case "uid", "gid":
		_, ok = decimal(value)
	case "uname", "gname":
		ok = strings.IndexByte(value, 0) < 0
	default:
		if strings.HasPrefix(key, paxSparse) {
			return wrongSparse
		}
	}
	if !ok {
		return "a pax record of " + key + " that is not what it should be"
	}
	return ""
}

// globalRecord takes one record of a header that is for all entries. What would change
// how they are read is refused.
func globalRecord(key, _ string) (wrong string) {
	if key != paxComment {
		return "a global pax header that says more than a comment"
	}
	return ""
}

// decimal reads a number as pax has it.
func decimal(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && s[0] != '+'
}

// paxTime reads seconds with a fraction.
func paxTime(s string) (time.Time, bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	sec, ok := decimal(whole)
	if !ok || strings.Trim(fraction, "0123456789") != "" {
		return time.Time{}, false
	}
	const digits = 9
	fraction = (fraction + strings.Repeat("0", digits))[:digits]
	nsec, err := strconv.ParseInt(fraction, 10, 64)
	if strings.HasPrefix(whole, "-") {
		nsec = -nsec
	}
	return time.Unix(sec, nsec), err == nil
}

// appendPax appends a record.
func appendPax(buf []byte, key, value string) []byte {
	rest := len(key) + len(value) + len(" =\n")
	n := rest
	for n != rest+len(strconv.Itoa(n)) {
		n = rest + len(strconv.Itoa(n))
	}
	buf = strconv.AppendInt(buf, int64(n), 10)
	buf = append(append(append(buf, ' '), key...), '=')
	return append(append(buf, value...), '\n')
}
