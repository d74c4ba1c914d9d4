package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// visible makes a text from outside (a lock file, a path) fit for a terminal: what does not
// print, a line break included, comes as an escape of Go. Otherwise the writer of a lock file
// could write to the terminal of its reader: move the cursor, or fake our own messages.
func visible(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if strconv.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			b.WriteString(s[:size])
		} else {
			b.WriteString(strings.Trim(strconv.Quote(s[:size]), `"`))
		}
		s = s[size:]
	}
	return b.String()
}

// jsonLine gives v as one line of JSON in which every rune that does not print is escaped.
// Package json leaves DEL, C1 controls and bidirectional marks as they are.
func jsonLine(v any) (string, error) {
	data, err := json.Marshal(v)
	var b strings.Builder
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r < 0x7f || unicode.IsPrint(r) {
			b.Write(data[:size])
		} else {
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
		data = data[size:]
	}
	b.WriteByte('\n')
	return b.String(), err
}

// writeJSON writes v as one line of JSON, with nothing in it that does not print.
func writeJSON(w io.Writer, v any) error {
	text, err := jsonLine(v)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	return err
}

// print writes one line of JSON.
func (a *app) print(v any) int {
	if err := writeJSON(a.stdout, v); err != nil {
		return a.fail(err)
	}
	return exitOK
}

// lines puts those of an error into one. Those behind a heading are indented.
var lines = strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ")

// oneLine gives an error in words. Its text may hold a path, or, of several
// errors joined, line breaks.
func oneLine(err error) string {
	text := lines.Replace(err.Error())
	return visible(strings.TrimPrefix(text, "lock: ")) // "holdfast: lock: ..." says nothing
}

// shorten cuts a text to at most n bytes, between two characters.
func shorten(s string, n int) string {
	const cut = "…"
	if len(s) <= n {
		return s
	}
	end := n - len(cut)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + cut
}

// shellWord quotes a word so that it can be pasted into a shell: it may come from a lock file
// that was written to have it pasted. It returns false for a word that can't be shown and
// pasted as it is.
func shellWord(s string) (string, bool) {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%"
	switch {
	case s != visible(s):
		return "", false
	case s != "" && strings.Trim(s, plain) == "": // nothing else in it
		return s, true
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'", true
}

// ago gives an age as people would. One in the future comes of a clock that was set, or
// another machine's, and is no reason to show nonsense.
func ago(age time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case age < 0:
		return "in the future"
	case age < time.Minute:
		return age.Truncate(time.Second).String()
	case age < 2*day:
		return strings.TrimSuffix(age.Truncate(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd%dh", age/day, age%day/time.Hour)
}
