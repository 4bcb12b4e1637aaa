package spec_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/spec"
)

// EnvPaths stand in front of Env's value, else of the place's, and the command that they
// came from stays as it is.
func TestWithEnvPaths(t *testing.T) {
	place := []string{"PATH=/bin", "EMPTY=", "PATHS=/not"}
	for _, tt := range []struct {
		name string
		c    spec.Command
		want map[string]string
	}{
		{"the place's", spec.Command{EnvPaths: map[string][]string{"PATH": {"/a", "/b"}}}, map[string]string{"PATH": "/a:/b:/bin"}},
		{"its own", spec.Command{Env: map[string]string{"PATH": "/own", "X": "y"}, EnvPaths: map[string][]string{"PATH": {"/a"}}}, map[string]string{"PATH": "/a:/own", "X": "y"}},
		{"its own and empty", spec.Command{Env: map[string]string{"PATH": ""}, EnvPaths: map[string][]string{"PATH": {"/a"}}}, map[string]string{"PATH": "/a"}},
		{"none", spec.Command{EnvPaths: map[string][]string{"NEW": {"/a"}, "EMPTY": {"/b"}}}, map[string]string{"NEW": "/a", "EMPTY": "/b"}},
		{"clean", spec.Command{CleanEnv: true, EnvPaths: map[string][]string{"PATH": {"/a"}}}, map[string]string{"PATH": "/a"}},
		{"no directory", spec.Command{EnvPaths: map[string][]string{"PATH": nil}}, map[string]string{"PATH": "/bin"}},
		{"nothing", spec.Command{Env: map[string]string{"X": "y"}}, map[string]string{"X": "y"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := maps.Clone(tt.c.Env)
			got := tt.c.WithEnvPaths(place)
			if diff := cmp.Diff(tt.want, got.Env); diff != "" {
				t.Errorf("env (-want +got):\n%s", diff)
			}
			if !maps.Equal(before, tt.c.Env) {
				t.Errorf("the command's own env became %v", tt.c.Env)
			}
		})
	}
}

// A caller that changes its lists afterwards changes nothing.
func TestCloneCopiesEnvPaths(t *testing.T) {
	c := spec.Command{EnvPaths: map[string][]string{"PATH": {"/a"}}}
	d := c.Clone()
	c.EnvPaths["PATH"][0] = "/other"
	if !slices.Equal(d.EnvPaths["PATH"], []string{"/a"}) {
		t.Errorf("the clone has %v", d.EnvPaths)
	}
}
