// Command peer is what package streamtest runs inside a place. It needs nothing but
// itself there.
//
//	peer mcp        a Model Context Protocol server on stdin and stdout
//	peer echo       copies stdin to stdout
//	peer pour N     writes N bytes of the pattern
//	peer memory     prints the resident set of its parent, the guest, in bytes
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	switch {
	case verb == "mcp":
		return serve(os.Stdin, os.Stdout, os.Stderr)
	case verb == "echo":
		_, err := io.Copy(struct{ io.Writer }{os.Stdout}, struct{ io.Reader }{os.Stdin})
		return err
	case verb == "pour" && len(args) == 1:
		n, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return err
		}
		return pour(os.Stdout, n)
	case verb == "memory":
		n, err := memory(os.Getppid())
		fmt.Println(n)
		return err
	}
	return fmt.Errorf("what is %q?", verb)
}

// pour writes n bytes: 64-bit numbers that count up, so that a byte that is lost,
// repeated or out of place shows.
func pour(w io.Writer, n int64) error {
	buf := make([]byte, 256<<10)
	for at := int64(0); at < n; at += int64(len(buf)) {
		for i := 0; i < len(buf); i += 8 {
			binary.BigEndian.PutUint64(buf[i:], uint64(at+int64(i)))
		}
		if _, err := w.Write(buf[:min(int64(len(buf)), n-at)]); err != nil {
			return err
		}
	}
	return nil
}

func memory(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), "\nVmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, fmt.Errorf("process %d has no VmRSS", pid)
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10, err
}

// The codes of JSON-RPC 2.0.
const (
	parseError     = -32700
	methodNotFound = -32601
	invalidParams  = -32602
)

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// serve answers one message a line until its input ends. Its log goes to stderr, as the
// protocol has it.
func serve(in io.Reader, out, log io.Writer) error {
	r, w := bufio.NewReader(in), bufio.NewWriter(out)
	fmt.Fprintln(log, "peer: serving")
	for {
		line, err := r.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if reply := answer(line); reply != nil {
				data, err := json.Marshal(reply)
				if err != nil {
					return err
				}
				if _, err := w.Write(append(data, '\n')); err != nil {
					return err
				}
				if err := w.Flush(); err != nil {
					return err
				}
			}
		}
		if err == io.EOF {
			fmt.Fprintln(log, "peer: the input has ended")
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// answer is nil for a notification.
func answer(line []byte) *response {
	var q request
	reply := &response{Version: "2.0", ID: json.RawMessage("null")}
	if json.Unmarshal(line, &q) != nil {
		reply.Error = &rpcError{parseError, "parse error"}
		return reply
	}
	if q.ID == nil {
		return nil
	}
	reply.ID = q.ID
	switch q.Method {
	case "initialize":
		reply.Result = map[string]any{
			"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "peer", "version": "1"},
		}
	case "ping":
		reply.Result = map[string]any{}
	case "tools/list":
		schema := map[string]any{"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}}, "required": []string{"text"}}
		reply.Result = map[string]any{"tools": []any{map[string]any{"name": "echo", "description": "says the text again", "inputSchema": schema}}}
	case "tools/call":
		var call struct {
			Name      string `json:"name"`
			Arguments struct {
				Text string `json:"text"`
			} `json:"arguments"`
		}
		if json.Unmarshal(q.Params, &call) != nil || call.Name != "echo" {
			reply.Error = &rpcError{invalidParams, "no such tool"}
			return reply
		}
		reply.Result = map[string]any{"content": []any{map[string]any{"type": "text", "text": call.Arguments.Text}}}
	default:
		reply.Error = &rpcError{methodNotFound, "no such method"}
	}
	return reply
}
