package account

import "testing"

// An image's account files are hostile: what is malformed is passed over.
func TestFields(t *testing.T) {
	file := []byte("\n::::\nshort:x\nroot:x:0:0:root:/:/bin/sh\nnum:x:12:34\napp:x:1000:1001:app:/:/bin/sh\r\napp:x:9:9:second\n")
	for _, tt := range []struct {
		who      string
		byNumber bool
		want     string
	}{{"app", false, "1000:1001"}, {"12", true, "12:34"}, {"1000", false, ""}, {"short", false, ""}, {"none", false, ""}, {"", true, ":"}} {
		got := ""
		if f := fields(file, tt.who, tt.byNumber, 4); f != nil {
			got = f[2] + ":" + f[3]
		}
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.who, got, tt.want)
		}
	}
}

// A user is found as an engine finds it, by name and by number.
func TestFind(t *testing.T) {
	files := map[string]string{"/etc/passwd": "app:x:1000:1001::/:\n", "/etc/group": "staff:x:50:\n"}
	read := func(name string) ([]byte, error) { return []byte(files[name]), nil }
	for user, want := range map[string]User{
		"": {}, "app": {1000, 1001}, "1000": {1000, 1001}, "app:staff": {1000, 50}, "7:8": {7, 8}, "7": {7, 0}, "none:none": {},
	} {
		if got, err := Find(user, read); got != want || err != nil {
			t.Errorf("%q: %v, %v; want %v", user, got, err, want)
		}
	}
}
