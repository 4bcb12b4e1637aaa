package streamtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
)

// rpc is a client of a server that speaks JSON-RPC 2.0, one message a line.
type rpc struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
	id  int
}

type reply struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code int `json:"code"`
	} `json:"error"`
}

func (r *rpc) send(v any) {
	r.t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.in.Write(append(data, '\n')); err != nil {
		r.t.Fatalf("send: %v", err)
	}
}

func (r *rpc) receive() reply {
	r.t.Helper()
	line, err := r.out.ReadBytes('\n')
	if err != nil {
		r.t.Fatalf("receive: %v after %.100q", err, line)
	}
	var got reply
	if err := json.Unmarshal(line, &got); err != nil {
		r.t.Fatalf("%.100q: %v", line, err)
	}
	return got
}

func (r *rpc) request(method string, params any) {
	r.t.Helper()
	r.id++
	r.send(map[string]any{"jsonrpc": "2.0", "id": r.id, "method": method, "params": params})
}

// call is one request and its answer, which goes into result; its error's code is
// returned.
func (r *rpc) call(method string, params, result any) (code int) {
	r.t.Helper()
	r.request(method, params)
	got := r.receive()
	if string(got.ID) != fmt.Sprint(r.id) {
		r.t.Fatalf("%s: the answer is to %s, not to %d", method, got.ID, r.id)
	}
	if got.Error != nil {
		return got.Error.Code
	}
	if err := json.Unmarshal(got.Result, result); err != nil {
		r.t.Fatalf("%s: %s: %v", method, got.Result, err)
	}
	return 0
}

// A server of the Model Context Protocol works in the place as it would as a child: its
// messages, its log beside them, its end when its input ends.
func (p *peer) mcp(t *testing.T) {
	var log bytes.Buffer
	c, in, out := p.pipes(t, &log, "mcp")
	r := &rpc{t: t, in: in, out: bufio.NewReader(out)}
	var hello struct {
		ProtocolVersion string
		ServerInfo      struct{ Name string }
	}
	r.call("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": struct{}{}, "clientInfo": map[string]any{"name": "streamtest", "version": "1"}}, &hello)
	if hello.ServerInfo.Name != "peer" || hello.ProtocolVersion == "" {
		t.Errorf("the server says %+v", hello)
	}
	r.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"}) // has no answer
	var list struct{ Tools []struct{ Name string } }
	if r.call("tools/list", struct{}{}, &list); len(list.Tools) != 1 || list.Tools[0].Name != "echo" {
		t.Errorf("the tools are %+v", list)
	}
	for _, text := range []string{"", "plain", "line\nline\r\n", "ü€😀 \u0000 \u2028", strings.Repeat("long ", 300_000)} {
		var said struct{ Content []struct{ Type, Text string } }
		if code := r.call("tools/call", map[string]any{"name": "echo", "arguments": map[string]any{"text": text}}, &said); code != 0 || len(said.Content) != 1 || said.Content[0].Text != text {
			t.Errorf("%.40q does not come back: code %d", text, code)
		}
	}
	if code := r.call("tools/call", map[string]any{"name": "nothing"}, nil); code != -32602 {
		t.Errorf("an unknown tool: code %d", code)
	}
	if code := r.call("no/such", struct{}{}, nil); code != -32601 {
		t.Errorf("an unknown method: code %d", code)
	}
	first, many := r.id+1, 300
	go func() {
		for range many {
			r.request("ping", struct{}{})
		}
	}()
	for i := range many {
		if got := r.receive(); string(got.ID) != fmt.Sprint(first+i) || got.Error != nil {
			t.Fatalf("answer %d is to %s", i, got.ID)
		}
	}
	if err := in.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if rest, err := io.ReadAll(r.out); err != nil || len(rest) > 0 {
		t.Errorf("%q comes after the end, %v", rest, err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("wait: %v", err)
	}
	if got := log.String(); got != "peer: serving\npeer: the input has ended\n" {
		t.Errorf("its log is %q", got)
	}
}
