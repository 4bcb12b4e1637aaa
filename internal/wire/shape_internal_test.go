package wire

import (
	"bytes"
	"encoding/json"
	"testing"
)

// counted is what a message lists, by a parser of JSON: the elements after the first of
// every array and object, and those of the containers that are a field's value.
func counted(payload []byte) (records, values int) {
	d := json.NewDecoder(bytes.NewReader(payload))
	type container struct{ tokens, perValue int }
	var open []container
	for {
		token, err := d.Token()
		if err != nil {
			return records, values
		}
		end := token == json.Delim('}') || token == json.Delim(']')
		if n := len(open); n > 0 && !end {
			c := &open[n-1]
			if c.tokens > 0 && c.tokens%c.perValue == 0 {
				values++
				if n == 2 {
					records++
				}
			}
			c.tokens++
		}
		switch token {
		case json.Delim('{'):
			open = append(open, container{perValue: 2})
		case json.Delim('['):
			open = append(open, container{perValue: 1})
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
	}
}

// FuzzShape: a valid message is refused exactly if it lists too much, whatever its
// texts hold.
func FuzzShape(f *testing.F) {
	f.Add([]byte(`{"entries":[{},{}]}`), 1, 1)
	f.Add([]byte(`{"a":"\\\",[{","b":[1,[2,3],{"c":4,"d":"]"}]}`), 1, 2)
	f.Add([]byte(`["\u005c",","]`), 0, 0)
	f.Fuzz(func(t *testing.T, payload []byte, mostRecords, mostValues int) {
		err := checkLists(payload, mostRecords, mostValues)
		if !json.Valid(payload) {
			return
		}
		records, values := counted(payload)
		if refused := records > mostRecords || values > mostValues; refused != (err != nil) && values > 0 {
			t.Errorf("%q lists %d and %d, at most %d and %d: %v", payload, records, values, mostRecords, mostValues, err)
		}
	})
}
