package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
