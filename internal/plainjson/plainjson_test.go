package plainjson

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"unicode"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

func TestLine(t *testing.T) {
	want := "a\u009bb\u202ec\x7fd\U000e0001e\u00e9 \n\x1b"
	out, err := Line(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range bytes.TrimSuffix(out, []byte("\n")) {
		if r < 0x80 && !unicode.IsPrint(rune(r)) {
			t.Errorf("%#x goes out as it is", r)
		}
	}
	if bytes.ContainsRune(out, '\u009b') || bytes.ContainsRune(out, '\u202e') {
		t.Errorf("controls go out as they are: %q", out)
	}
	var got string
	if err := json.Unmarshal(out, &got); err != nil || got != want {
		t.Errorf("read back: %q, %v; want %q", got, err, want)
	}
}
