package berth

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A page has whole lines, unless its first one alone is longer than a page or its last
// one is not over, and says what it has.
func TestPage(t *testing.T) {
	tests := []struct {
		name string
		info LogInfo
		data string
		want LogLines
	}{
		{"all of it", LogInfo{FirstLine: 1, Lines: 2, Bytes: 4, Complete: true}, "a\nb\n", LogLines{Data: []byte("a\nb\n"), FirstLine: 1, LastLine: 2, Lines: 2, Complete: true}},
		{"the middle", LogInfo{FirstLine: 5, Offset: 20, Lines: 9, Bytes: 40}, "a\nb\n", LogLines{Data: []byte("a\nb\n"), FirstLine: 5, LastLine: 6, Offset: 20, Lines: 9, More: true}},
		{"a last line without a newline", LogInfo{FirstLine: 1, Lines: 2, Bytes: 3, Complete: true}, "a\nb", LogLines{Data: []byte("a\nb"), FirstLine: 1, LastLine: 2, Lines: 2, Complete: true}},
		{"one that is not over", LogInfo{FirstLine: 1, Lines: 2, Bytes: 3}, "a\nb", LogLines{Data: []byte("a\nb"), FirstLine: 1, LastLine: 2, Lines: 2, Cut: true}},
		{"the cap within a line", LogInfo{FirstLine: 1, Lines: 3, Bytes: 9}, "a\nbbb", LogLines{Data: []byte("a\n"), FirstLine: 1, LastLine: 1, Lines: 3, More: true}},
		{"the cap within the first", LogInfo{FirstLine: 7, Offset: 9, Lines: 8, Bytes: 90, Complete: true}, "aaaa", LogLines{Data: []byte("aaaa"), FirstLine: 7, LastLine: 7, Offset: 9, Lines: 8, More: true, Complete: true, Cut: true}},
		{"past the end", LogInfo{FirstLine: 3, Offset: 4, Lines: 2, Bytes: 4, Complete: true}, "", LogLines{Data: []byte{}, FirstLine: 3, LastLine: 2, Offset: 4, Lines: 2, Complete: true}},
		{"an empty log", LogInfo{FirstLine: 1}, "", LogLines{Data: []byte{}, FirstLine: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(&tt.want, page(tt.info, []byte(tt.data))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
