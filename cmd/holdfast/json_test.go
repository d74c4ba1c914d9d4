package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode"
)

func TestWriteJSON(t *testing.T) {
	want := "a\u009bb\u202ec\x7fd\U000e0001e\u00e9 \n\x1b"
	var out bytes.Buffer
	if err := writeJSON(&out, want); err != nil {
		t.Fatal(err)
	}
	for _, r := range bytes.TrimSuffix(out.Bytes(), []byte("\n")) {
		if r < 0x80 && !unicode.IsPrint(rune(r)) {
			t.Errorf("%#x goes out as it is", r)
		}
	}
	if bytes.ContainsRune(out.Bytes(), '\u009b') || bytes.ContainsRune(out.Bytes(), '\u202e') {
		t.Errorf("controls go out as they are: %q", out.String())
	}
	var got string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got != want {
		t.Errorf("read back: %q, %v; want %q", got, err, want)
	}
}
