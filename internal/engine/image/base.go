package image

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
	"github.com/distribution/reference"
)

// bases are the images that the Dockerfile begins with or copies from, as far as its text
// and the arguments say.
func (s *source) bases() []string {
	args, stages := map[string]string{}, []string{"scratch"}
	var refs []string
	add := func(ref string) {
		ref = os.Expand(ref, func(name string) string { return args[name] })
		if _, err := reference.ParseNormalizedNamed(ref); err == nil && !slices.Contains(stages, ref) && !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	for line := range strings.Lines(string(s.dockerfile)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		flags := words[1:]
		rest := slices.DeleteFunc(slices.Clone(flags), func(w string) bool { return strings.HasPrefix(w, "--") })
		switch strings.ToUpper(words[0]) {
		case "ARG":
			name, value, _ := strings.Cut(words[1], "=")
			if given, ok := s.args[name]; ok {
				value = given
			}
			args[name] = strings.Trim(value, `"'`)
		case "FROM":
			if len(rest) > 0 {
				add(rest[0])
			}
			if len(rest) > 2 && strings.EqualFold(rest[1], "as") {
				stages = append(stages, rest[2])
			}
		case "COPY":
			if from, ok := strings.CutPrefix(words[1], "--from="); ok && strings.ContainsAny(from, "/:.") { // else a stage
				add(from)
			}
		case "RUN":
			for _, ref := range mounted(flags) {
				add(ref)
			}
		}
	}
	return refs
}

// mounted are the images that the flags of a RUN name; what could be a stage is left out.
func mounted(words []string) []string {
	var refs []string
	for _, word := range words {
		if !strings.HasPrefix(word, "--") {
			break // the command begins
		}
		options, _ := strings.CutPrefix(word, "--mount=")
		for option := range strings.SplitSeq(options, ",") {
			if from, ok := strings.CutPrefix(option, "from="); ok && strings.ContainsAny(from, "/:.") {
				refs = append(refs, from)
			}
		}
	}
	return refs
}

// refresh pulls the bases of a source, since one may have moved. One that did not come from
// a registry, or that no registry has any more, is the engine's own.
func (s *Store) refresh(ctx context.Context, bases []string, o driver.PrepareOptions) error {
	for _, ref := range bases {
		found, missing := s.Find(ctx, o.Authority, ref)
		if LocalOnly(ref) || missing == nil && len(found.Digests) == 0 {
			continue
		}
		_, err := s.Pull(ctx, ref, o)
		switch code := spec.CodeOf(err); {
		case err == nil:
		case missing == nil && (code == spec.CodeNotFound || code == spec.CodePermission):
		default:
			return err
		}
	}
	return nil
}
