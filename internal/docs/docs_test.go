package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// README's tables of codes and settings are what the code says.
func TestReadmeIsCurrent(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{"codes": codes(), "settings": settings()} {
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
