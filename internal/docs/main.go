// Command docs writes the tables of the documents that come from the code: error
// codes, settings, what guard hides, what each backend enforces, what each wall stops,
// and what bench measures. Each stands between two markers, "<!-- begin NAME -->" and
// "<!-- end NAME -->".
//
//	go run ./internal/docs                      error codes, settings, what guard hides
//	go run ./internal/docs -caps FILE           also the capabilities, from `go run ./bench -caps` lines
//	go run ./internal/docs -bench FILE          also the measurements, from `go run ./bench -json` lines
//	go run ./internal/docs -walls FILE          also what each wall stops, from `bench -walls` lines
//
// The lines of -walls are those of root and of an ordinary user, who needs the program:
//
//	go build -o /tmp/bench ./bench
//	setpriv --reuid 1001 --regid 1001 --clear-groups env HOME=DIR /tmp/bench -walls -backend none,guard,jail >FILE
//	/tmp/bench -walls >>FILE
//
// A test fails while a document and the code disagree.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/berth-dev/berth/drivertest"
	"github.com/berth-dev/berth/internal/config"
	"github.com/berth-dev/berth/internal/isolate"
	"github.com/berth-dev/berth/spec"
)

func main() {
	caps := flag.String("caps", "", "file of capabilities, one JSON object a line")
	bench := flag.String("bench", "", "file of measurements, one JSON object a line")
	walls := flag.String("walls", "", "file of what walls stop, one JSON object a line")
	flag.Parse()
	err := errors.Join(
		update("README.md",
			table{"codes", func() (string, error) { return codes(), nil }},
			table{"settings", func() (string, error) { return settings(), nil }},
			table{"hidden", func() (string, error) { return hidden(), nil }},
			table{"caps", func() (string, error) { return fromFile(*caps, capsTable) }},
			table{"bench", func() (string, error) { return fromFile(*bench, benchTable) }},
		),
		update("docs/walls.md", table{"walls", func() (string, error) { return fromFile(*walls, wallsTable) }}),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

// table is what stands between the markers of its name; "" leaves that as it is.
type table struct {
	name string
	make func() (string, error)
}

// update makes the tables of a document anew.
func update(path string, tables ...table) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	out := string(text)
	for _, table := range tables {
		body, err := table.make()
		if err != nil {
			return err
		}
		if body == "" {
			continue
		}
		if out, err = replace(out, table.name, body); err != nil {
			return err
		}
	}
	if out == string(text) {
		return nil
	}
	return os.WriteFile(path, []byte(out), 0o644)
}

// replace puts body between the markers of name.
func replace(text, name, body string) (string, error) {
	begin, end := "<!-- begin "+name+" -->", "<!-- end "+name+" -->"
	head, rest, ok := strings.Cut(text, begin)
	if !ok {
		return "", fmt.Errorf("no %s", begin)
	}
	_, tail, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("no %s", end)
	}
	return head + begin + "\n" + body + end + tail, nil
}

func codes() string {
	var b strings.Builder
	b.WriteString("| code | meaning | exit status | HTTP | retry |\n|---|---|---|---|---|\n")
	for _, c := range spec.Codes() {
		retry := ""
		if c.Retryable {
			retry = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %d | %d | %s |\n", c.Code, c.Text, c.ExitCode, c.HTTPStatus, retry)
	}
	return b.String()
}

func settings() string {
	var b strings.Builder
	b.WriteString("| in the file | environment | flag | default | what |\n|---|---|---|---|---|\n")
	code := func(s string) string {
		if s == "" {
			return ""
		}
		return "`" + s + "`"
	}
	for _, s := range config.Settings() {
		flagName := s.Flag
		if flagName != "" {
			flagName = "--" + strings.TrimPrefix(flagName, "--")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", code(s.Key), code(s.Env), code(flagName), code(s.Default), strings.ReplaceAll(s.Help, "|", "\\|"))
	}
	return b.String()
}

func hidden() string {
	var b strings.Builder
	b.WriteString("| what | in the home directory |\n|---|---|\n")
	for _, kept := range isolate.HiddenInHome() {
		fmt.Fprintf(&b, "| %s | `%s` |\n", kept.What, strings.Join(kept.Names, "`, `"))
	}
	return b.String()
}

// fromFile makes a table of the JSON lines of a file; "" for no file.
func fromFile(path string, table func(io.Reader) (string, error)) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return table(f)
}

// column is one place in the capability table.
type column struct {
	Name string    `json:"name"`
	Caps spec.Caps `json:"caps"`
}

func capsTable(r io.Reader) (string, error) {
	columns, err := jsonLines[column](r)
	if err != nil {
		return "", err
	}
	yes := func(v bool) string {
		if v {
			return "yes"
		}
		return "-"
	}
	rows := []struct {
		name string
		get  func(spec.Caps) string
	}{
		{"isolation", func(c spec.Caps) string { return c.Isolation.String() }},
		{"network, by default", func(c spec.Caps) string { return c.Network.String() }},
		{"writable roots", func(c spec.Caps) string { return yes(c.WritableRoots) }},
		{"hidden paths", func(c spec.Caps) string { return yes(c.HiddenPaths) }},
		{"guest shielded as pid 1", func(c spec.Caps) string { return yes(c.Shielded) }},
		{"ending a tree", func(c spec.Caps) string { return string(c.KillTree) }},
		{"found again by key", func(c spec.Caps) string { return yes(c.Keyed) }},
		{"survives a lost connection", func(c spec.Caps) string { return yes(c.Resume) }},
		{"jobs (durable in a place with a key)", func(c spec.Caps) string { return yes(c.Jobs != spec.JobsNone) }},
		{"terminals", func(c spec.Caps) string { return yes(c.Terminals) }},
		{"changes of files told, trees as archives, events", func(c spec.Caps) string { return yes(c.Watch && c.Trees && c.Events) }},
		{"what listens inside reached, and the reverse", func(c spec.Caps) string { return yes(c.Ports) }},
		{"a command as another user", func(c spec.Caps) string { return yes(c.CommandUser) }},
		{"sockets of programs outside out of reach", func(c spec.Caps) string { return yes(c.ConfinedSockets) }},
		{"file API confined to a root", func(c spec.Caps) string { return yes(c.WorkspaceRoot) }},
		{"image, pulled or built", func(c spec.Caps) string { return yes(c.Image && c.Build) }},
		{"mounts, published ports, network modes, labels, secrets", func(c spec.Caps) string {
			return yes(c.Mounts && c.PublishedPorts && c.NetworkModes && c.Labels && c.Secrets)
		}},
		{"suspended with its processes", func(c spec.Caps) string { return yes(c.Suspend) }},
		{"snapshots of its files", func(c spec.Caps) string { return yes(c.Snapshots) }},
		{"limits, by default", limits},
		{"hardening knobs", func(c spec.Caps) string { return yes(c.Hardening) }},
	}
	var b strings.Builder
	b.WriteString("| |")
	for _, c := range columns {
		b.WriteString(" " + c.Name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, row := range rows {
		b.WriteString("| " + row.name + " |")
		for _, c := range columns {
			b.WriteString(" " + row.get(c.Caps) + " |")
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// limits lists what is limited.
func limits(c spec.Caps) string {
	var names []string
	for _, l := range []struct {
		name string
		on   bool
	}{{"memory", c.LimitMemory}, {"pids", c.LimitPIDs}, {"cpu", c.LimitCPU}} {
		if l.on {
			names = append(names, l.name)
		}
	}
	if names == nil {
		return "-"
	}
	return strings.Join(names, ",")
}

// wall is one line of bench -walls: a place, and what the probes found.
type wall struct {
	Name     string               `json:"name"`
	Findings []drivertest.Finding `json:"findings"`
}

// wallsTable has a row a probe and a column a place.
func wallsTable(r io.Reader) (string, error) {
	walls, err := jsonLines[wall](r)
	if err != nil {
		return "", err
	}
	cells := map[drivertest.Verdict]string{
		drivertest.WallStopped: "stopped", drivertest.WallOpen: "**open**", drivertest.WallReported: "reported", drivertest.WallUntried: "-",
	}
	var b strings.Builder
	b.WriteString("| | |")
	for _, w := range walls {
		b.WriteString(" " + w.Name + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(walls)) + "\n")
	topic := ""
	for _, p := range drivertest.Probes() {
		head := ""
		if p.Topic != topic {
			head, topic = p.Topic, p.Topic
		}
		fmt.Fprintf(&b, "| %s | %s", head, p.What)
		if p.Network != spec.NetworkDefault {
			fmt.Fprintf(&b, ", network %s", p.Network)
		}
		b.WriteString(" |")
		for _, w := range walls {
			i := slices.IndexFunc(w.Findings, func(f drivertest.Finding) bool { return f.Probe == p.Name })
			if i < 0 {
				return "", fmt.Errorf("%s says nothing of %s", w.Name, p.Name)
			}
			b.WriteString(" " + cells[w.Findings[i].Verdict] + " |")
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// measurement is one line of bench -json.
type measurement struct {
	Name, Backend, Against string
	Ratio                  float64
}

func benchTable(r io.Reader) (string, error) {
	lines, err := jsonLines[measurement](r)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| what | where | against | ratio of medians |\n|---|---|---|---|\n")
	for _, m := range lines {
		ratio := fmt.Sprintf("%.2f", m.Ratio)
		if m.Ratio < 0.5 {
			ratio = fmt.Sprintf("%.3f (%.0f times faster)", m.Ratio, 1/m.Ratio)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.Name, m.Backend, m.Against, ratio)
	}
	return b.String(), nil
}

func jsonLines[T any](r io.Reader) ([]T, error) {
	var out []T
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var v T
		if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	if len(out) == 0 && sc.Err() == nil {
		return nil, fmt.Errorf("nothing to make a table of")
	}
	return out, sc.Err()
}
