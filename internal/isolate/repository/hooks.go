package repository

import (
	"slices"
	"strings"
)

// maxConfigBytes bounds what is read of the configuration of a repository.
const maxConfigBytes = 256 << 10

// HooksPaths returns what the configurations say of where the hooks are: each value of
// core.hooksPath that one of the files has, as it is spelled. A file that cannot be read
// says nothing.
func HooksPaths(files ...string) []string {
	var out []string
	for _, file := range files {
		text, err := ReadSmall(file, maxConfigBytes)
		if err != nil {
			continue
		}
		section := ""
		for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
			line = strings.TrimSpace(line)
			if header, rest, ok := strings.Cut(line, "]"); ok && strings.HasPrefix(line, "[") {
				section, line = strings.ToLower(strings.Trim(header, "[ \t")), strings.TrimSpace(rest)
			}
			name, text, ok := strings.Cut(line, "=")
			if !ok || section != "core" || !strings.EqualFold(strings.TrimSpace(name), "hookspath") {
				continue
			}
			if value := unquoted(text); value != "" && !slices.Contains(out, value) {
				out = append(out, value)
			}
		}
	}
	return out
}

// unquoted is a value of a configuration without its quotes, escapes and comment.
func unquoted(text string) string {
	var b strings.Builder
	quoted, kept := false, 0 // blanks at the end are kept only in quotes
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
			continue
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case !quoted && (c == '#' || c == ';'):
			return b.String()[:kept]
		case !quoted && (c == ' ' || c == '\t'):
			if b.Len() > 0 {
				b.WriteByte(c)
			}
			continue
		default:
			b.WriteByte(c)
		}
		kept = b.Len()
	}
	return b.String()[:kept]
}
