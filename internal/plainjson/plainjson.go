// Package plainjson writes JSON that is safe to show in a terminal.
package plainjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line gives v as one line of JSON in which every rune that does not print is escaped.
// Package json leaves DEL, C1 controls and bidirectional marks as they are, and what lock
// files say is written by whoever can write them.
func Line(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.Grow(len(data) + 1)
	for len(data) > 0 {
		c, size := utf8.DecodeRune(data)
		if c < utf8.RuneSelf && c != 0x7f || unicode.IsPrint(c) {
			out.Write(data[:size]) // package json has escaped the other ASCII controls
		} else {
			for _, unit := range utf16.Encode([]rune{c}) {
				fmt.Fprintf(&out, `\u%04x`, unit)
			}
		}
		data = data[size:]
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
