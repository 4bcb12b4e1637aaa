package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/berth-dev/berth/spec"
)

// maxFileBytes is the most that a configuration file has.
const maxFileBytes = 1 << 20

// document is a parsed file: known keys only.
type document struct {
	name   string
	values map[string]raw
}

// kind is the type that a value has in the file.
type kind int

const (
	kindAny kind = iota // from a flag, a variable or a default: text
	kindString
	kindInteger
	kindBoolean
	kindArray
	kindOther
)

// raw is a value before it is parsed.
type raw struct {
	texts []string
	kind  kind
	line  int
}

// fits refuses a value of the file whose type is not the setting's.
func (r raw) fits(s *Setting) error {
	ok, want := r.kind == kindString, "a string"
	switch {
	case s.List:
		ok, want = r.kind == kindArray, "an array of strings"
	case s.number:
		ok, want = r.kind == kindInteger || r.kind == kindString, "an integer"
	case s.boolean:
		ok, want = r.kind == kindBoolean, "true or false"
	}
	if ok || r.kind == kindAny {
		return nil
	}
	return fmt.Errorf("want %s", want)
}

// parseFile reads a TOML document and refuses every key that no setting has.
func parseFile(name string, data []byte) (*document, error) {
	fail := func(line int, err error) *spec.Error {
		return &spec.Error{Op: "config", Code: spec.CodeInvalid, Err: fmt.Errorf("%s:%d: %w", name, line, err)}
	}
	if len(data) > maxFileBytes {
		return nil, fail(1, fmt.Errorf("the file has %d bytes, at most %d are read", len(data), maxFileBytes))
	}
	tree := map[string]any{}
	if err := toml.Unmarshal(data, &tree); err != nil {
		line := 1
		var decode *toml.DecodeError
		if errors.As(err, &decode) {
			line, _ = decode.Position()
		}
		return nil, fail(line, errors.New(strings.TrimPrefix(err.Error(), "toml: ")))
	}
	d := &document{name: name, values: map[string]raw{}}
	flatten(d.values, "", tree)
	lines := keyLines(data)
	for _, key := range slices.Sorted(maps.Keys(d.values)) {
		value := d.values[key]
		value.line = lineOf(lines, key)
		d.values[key] = value
		if s, known := Lookup(key); !known || s.noFile {
			e := fail(value.line, fmt.Errorf("unknown key %s%s", key, didYouMean(key)))
			e.Hint = "`berth info --settings` shows the keys that there are"
			return nil, e
		}
	}
	return d, nil
}

// flatten turns tables into dotted keys.
func flatten(into map[string]raw, prefix string, table map[string]any) {
	for name, value := range table {
		key := prefix + name
		switch v := value.(type) {
		case map[string]any:
			flatten(into, key+".", v)
		case string:
			into[key] = raw{texts: []string{v}, kind: kindString}
		case int64:
			into[key] = raw{texts: []string{strconv.FormatInt(v, 10)}, kind: kindInteger}
		case bool:
			into[key] = raw{texts: []string{strconv.FormatBool(v)}, kind: kindBoolean}
		case []any:
			into[key] = array(v)
		default:
			into[key] = raw{texts: []string{fmt.Sprint(v)}, kind: kindOther}
		}
	}
}

func array(items []any) raw {
	r := raw{kind: kindArray}
	for _, item := range items {
		s, ok := item.(string)
		if !ok {
			r.kind = kindOther
		}
		r.texts = append(r.texts, s)
	}
	return r
}

// keyLines finds the line of every key that stands in a document known to be
// well-formed.
func keyLines(data []byte) map[string]int {
	lines := map[string]int{}
	var p unstable.Parser
	p.Reset(data)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		var parts []string
		line := 0
		for it := e.Key(); it.Next(); {
			parts = append(parts, string(it.Node().Data))
			line = p.Shape(it.Node().Raw).Start.Line
		}
		key := strings.Join(parts, ".")
		if e.Kind == unstable.KeyValue {
			lines[table+key] = line
			continue
		}
		table = key + "."
		lines[key] = line
	}
	return lines
}

// lineOf returns the line of key, or that of the inline table which holds it.
func lineOf(lines map[string]int, key string) int {
	for key != "" {
		if line := lines[key]; line > 0 {
			return line
		}
		key = key[:max(strings.LastIndexByte(key, '.'), 0)]
	}
	return 1
}

// didYouMean names the settings that end in the same word, or that differ from key
// in one letter.
func didYouMean(key string) string {
	for _, s := range settings {
		if !s.noFile && (strings.HasSuffix(s.Key, "."+key) || oneEdit(s.Key, key)) {
			return ": do you mean " + s.Key + "?"
		}
	}
	return ""
}

// oneEdit reports whether a and b differ in one letter that was added, left out or
// mistaken, or in two that were swapped.
func oneEdit(a, b string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(b) && a[i] == b[i] {
		i++
	}
	rest, other := a[i:], b[i:]
	switch {
	case len(a) == len(b)+1:
		return rest[1:] == other
	case len(a) != len(b) || len(rest) == 0:
		return false
	case rest[1:] == other[1:]:
		return true
	default:
		return len(rest) > 1 && rest[0] == other[1] && rest[1] == other[0] && rest[2:] == other[2:]
	}
}
