package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
)

// writeJSON writes v as one line of JSON in which every rune that does not print is
// escaped. Package json leaves DEL, C1 controls and bidirectional marks as they are, and
// whoever can write a lock file decides what is in its fields.
func writeJSON(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	for _, r := range string(data) {
		// Outside of strings JSON has nothing but printable ASCII.
		if unicode.IsPrint(r) {
			line.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&line, `\u%04x`, unit)
		}
	}
	line.WriteByte('\n')
	_, err = w.Write(line.Bytes())
	return err
}
