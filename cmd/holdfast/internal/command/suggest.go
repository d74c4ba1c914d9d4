package command

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// nearest returns which of words was probably meant by word: the one that begins with it,
// or the one that the fewest slips lead to; "" if none is near.
func nearest(word string, words []string) (best string) {
	most := 1 + len(word)/5
	if len(word) < 3 {
		return ""
	}
	for _, w := range words {
		if strings.HasPrefix(w, word) {
			return w
		}
		if d := slips(word, w); d <= most {
			best, most = w, d-1
		}
	}
	return best
}

// slips counts the letters left out, put in, mistaken, or exchanged with the next one, that
// lead from one word to another.
func slips(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1) // the rows for i-2 and i-1
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			mistaken := 1
			if a[i-1] == b[j-1] {
				mistaken = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+mistaken)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// meant returns the command that was probably meant by args, which name none; "" if it
// can't be told.
func meant(args []string) string {
	var firsts, seconds []string
	for _, c := range commands() {
		if c.summary != "" {
			first, _, _ := strings.Cut(c.name, " ")
			firsts = append(firsts, first)
		}
	}
	first := nearest(args[0], firsts)
	for _, c := range group(first) {
		seconds = append(seconds, strings.TrimPrefix(c.name, first+" "))
	}
	if len(args) > 1 && len(seconds) > 0 {
		if second := nearest(args[1], seconds); second != "" {
			return first + " " + second
		}
	}
	if first == args[0] {
		return ""
	}
	return first
}

// unknownFlag returns the flag that was probably meant by an unknown one; "" if it can't be
// told, or if err is about something else.
func unknownFlag(flags *flag.FlagSet, err error) string {
	name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !ok {
		return ""
	}
	var names []string
	flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return nearest(name, names)
}

// duration adds a flag for a span of time. Its errors help if the unit was forgotten.
func duration(flags *flag.FlagSet, p *time.Duration, name string) {
	flags.Func(name, "", func(text string) (err error) {
		*p, err = span(text)
		return err
	})
}

// span reads a span of time.
func span(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if _, nerr := strconv.ParseFloat(text, 64); err != nil && nerr == nil && strings.ContainsFunc(text, unicode.IsDigit) {
		return 0, fmt.Errorf("it has no unit; did you mean %ss, or %[1]sm?", text)
	} else if err != nil {
		return 0, errors.New("it is no span of time, such as 90s, 10m or 1h30m")
	} else if d < 0 {
		return 0, errors.New("it is negative")
	}
	return d, nil
}
