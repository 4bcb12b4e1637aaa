package main

import (
	"bytes"
	"strings"
	"testing"
)

// What passed is counted, what failed is shown, whatever ran between.
func TestReport(t *testing.T) {
	in := strings.Join([]string{
		`{"Action":"run","Package":"p","Test":"A"}`,
		`{"Action":"run","Package":"p","Test":"B"}`,
		`{"Action":"output","Package":"p","Test":"A","Output":"said by A\n"}`,
		`{"Action":"output","Package":"p","Test":"B","Output":"said by B\n"}`,
		`{"Action":"pass","Package":"p","Test":"A"}`,
		`{"Action":"fail","Package":"p","Test":"B"}`,
		`{"Action":"skip","Package":"p","Test":"C"}`,
		`{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}`,
		`{"Action":"fail","Package":"p"}`,
		`{"Action":"output","Package":"q","Output":"PASS\n"}`,
		`{"Action":"output","Package":"q","Output":"ok  \tq\t0.1s\n"}`,
		`{"Action":"pass","Package":"q"}`,
		`{"Action":"output","Package":"r","Test":"Dies","Output":"panic: x\n"}`,
		`{"Action":"fail","Package":"r"}`,
		`{"ImportPath":"s","Action":"build-output","Output":"s.go:1: no\n"}`,
		`go: a line of another tool`,
	}, "\n")
	var out bytes.Buffer
	r := &report{out: &out, output: map[test]*strings.Builder{}}
	if err := r.read(strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	if r.passed != 1 || r.failed != 2 || r.skipped != 1 || r.broken != 2 {
		t.Errorf("passed %d, failed %d, skipped %d, broken %d", r.passed, r.failed, r.skipped, r.broken)
	}
	want := "said by B\nFAIL\tp\t0.1s\nok  \tq\t0.1s\npanic: x\ns.go:1: no\ngo: a line of another tool"
	if out.String() != want {
		t.Errorf("shown:\n%s\nwant:\n%s", out.String(), want)
	}
}
