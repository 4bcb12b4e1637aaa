package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/drivertest"
)

// The program that README shows is one that is built and run.
func TestReadmeProgram(t *testing.T) {
	root := filepath.Join("..", "..")
	readme, err1 := os.ReadFile(filepath.Join(root, "README.md"))
	program, err2 := os.ReadFile(filepath.Join(root, "examples", "library", "main.go"))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(string(program), "\n") // without the command's comment
	if !strings.Contains(string(readme), "```go\n"+want+"```\n") {
		t.Error("README.md does not show examples/library/main.go as it is")
	}
}

// README's tables of codes, settings and hidden paths are what the code says.
func TestReadmeIsCurrent(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{"codes": codes(), "settings": settings(), "hidden": hidden()} {
		want, err := replace(string(text), name, body)
		if err != nil {
			t.Fatal(err)
		}
		if want != string(text) {
			t.Errorf("the table %q in README.md is not what the code says; run: go run ./internal/docs", name)
		}
	}
	for _, name := range []string{"caps", "bench"} {
		if !strings.Contains(string(text), "<!-- begin "+name+" -->\n|") {
			t.Errorf("README.md has no table %q", name)
		}
	}
}

// The table of what each wall stops has a row for each probe, with its words.
func TestWallsAreCurrent(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "walls.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "<!-- begin walls -->\n")
	table, _, _ = strings.Cut(table, "<!-- end walls -->")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	probes := drivertest.Probes()
	if len(rows) != len(probes)+2 {
		t.Fatalf("docs/walls.md has %d rows for %d probes; run bench -walls and internal/docs -walls", len(rows)-2, len(probes))
	}
	for i, p := range probes {
		if !strings.Contains(rows[i+2], "| "+p.What) {
			t.Errorf("row %q is not about %s", rows[i+2], p.Name)
		}
	}
}
