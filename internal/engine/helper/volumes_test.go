package helper

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// An archive that has been cut off, wherever that is, is not taken for a whole one, whatever
// it ends with.
func TestEnding(t *testing.T) {
	whole := strings.Repeat("\x00", 3000)
	whole += fmt.Sprintf(wholeLine, len(whole))
	for n := range len(whole) {
		_, err := io.Copy(io.Discard, &ending{r: strings.NewReader(whole[:n])})
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d bytes of %d: %v; want %v", n, len(whole), err, io.ErrUnexpectedEOF)
		}
	}
	for _, r := range []io.Reader{strings.NewReader(whole), iotest.OneByteReader(strings.NewReader(whole)), iotest.DataErrReader(strings.NewReader(whole))} {
		var got bytes.Buffer
		if _, err := io.Copy(&got, struct{ io.Reader }{&ending{r: r}}); err != nil || got.String() != whole {
			t.Errorf("the whole: %d bytes, %v", got.Len(), err)
		}
	}
}
