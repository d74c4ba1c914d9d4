package command

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/lock"
)

// What a terminal is told (ECMA-48, and xterm's for the second screen).
const (
	// On a screen of its own, without a cursor; what is too long is not wrapped.
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	clearRight  = "\x1b[K"
	clearBelow  = "\x1b[J"
	plainText   = "\x1b[m"
)

// colors are those of the states.
var colors = map[lock.State]string{
	lock.StateHeld: "\x1b[32m", lock.StateFree: "\x1b[2m", lock.StateDead: "\x1b[31m", lock.StateUnknown: "\x1b[33m",
}

// screen is the view for a terminal: a table, drawn over what it has shown before. When it
// ends, the terminal is as it was.
type screen struct {
	tty     *os.File
	colored bool
	entered bool
	last    look
}

func newScreen(tty *os.File, colored bool) *screen {
	s := &screen{tty: tty, colored: colored}
	s.enter()
	return s
}

func (s *screen) enter() {
	_, err := s.tty.WriteString(enterScreen)
	s.entered = err == nil
}

func (s *screen) end() {
	if s.entered {
		s.entered = false
		_, _ = s.tty.WriteString(leaveScreen)
	}
}

func (s *screen) heed(sig os.Signal) bool {
	switch {
	case stops(sig):
		s.end()
		suspend(sig)
		s.enter()
	case endsWait(sig):
		s.end()
		return true
	}
	_ = s.show(s.last) // perhaps in another size; the next look tells of an error
	return false
}

func (s *screen) show(l look) error {
	s.last = l
	if l.at.IsZero() {
		return nil
	}
	width, height, ok := windowSize(s.tty)
	if !ok || width <= 0 || height <= 0 { // a terminal that does not know
		width, height = 80, 24
	}
	lines := table(l, time.Now(), width, height)
	for i, line := range lines {
		if color := colors[line.state]; s.colored && color != "" {
			lines[i].text = color + line.text + plainText
		}
		lines[i].text += clearRight
	}
	var b strings.Builder
	b.WriteString(screenHome)
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line.text)
	}
	b.WriteString(clearBelow)
	_, err := s.tty.WriteString(b.String())
	return err
}

// A tableLine is one line of the screen; of a lock it has the state.
type tableLine struct {
	text  string
	state lock.State
}

// table makes of a look what fits a terminal: who is in use before who is free.
func table(l look, now time.Time, width, height int) (lines []tableLine) {
	locks := slices.Clone(l.locks)
	slices.SortStableFunc(locks, func(a, b lock.Status) int {
		free := func(s lock.Status) int { return map[bool]int{true: 1}[s.State == lock.StateFree] }
		return free(a) - free(b)
	})
	rows := [][]string{{"STATE", "LOCK", "HOLDER", "SINCE", "WAITERS"}}
	for _, s := range locks {
		rows = append(rows, row(s, now))
	}
	widths := fit(rows, width)
	add := func(text string, state lock.State) {
		lines = append(lines, tableLine{cutEnd(text, width), state})
	}
	add(summary(l), "")
	for i, cells := range rows {
		var b strings.Builder
		for j, cell := range cells {
			if j == lockColumn {
				cell = cutBegin(cell, widths[j])
			}
			cell = cutEnd(cell, widths[j])
			b.WriteString(cell)
			if j < len(cells)-1 {
				b.WriteString(strings.Repeat(" ", widths[j]-columns(cell)+gap))
			}
		}
		var state lock.State
		if i > 0 {
			state = locks[i-1].State
		}
		add(strings.TrimRight(b.String(), " "), state)
	}
	for _, err := range l.errs {
		add("not read: "+oneLine(err), "")
	}
	if more := len(lines) - height; more > 0 {
		lines = lines[:height]
		if height > 1 {
			lines[height-1] = tableLine{text: cutEnd(fmt.Sprintf("… and %d more", more+1), width)}
		}
	}
	return lines
}

// summary is the first line: when, and how many of what.
func summary(l look) string {
	counts, waiting := map[lock.State]int{}, 0
	for _, s := range l.locks {
		counts[s.State]++
		waiting += len(s.Waiters)
	}
	return fmt.Sprintf("%s  %d held, %d free, %d dead, %d unknown; %d waiting", l.at.Format(time.TimeOnly),
		counts[lock.StateHeld], counts[lock.StateFree], counts[lock.StateDead], counts[lock.StateUnknown], waiting)
}

const lockColumn, gap = 1, 2

func row(s lock.Status, now time.Time) []string {
	pid, _, age, label := holderCells(s, now)
	who := pid
	if label != "-" {
		who += " " + label
	}
	if s.Gone != nil {
		who += fmt.Sprintf(", left by %d", s.Gone.PID)
	}
	waiters := "-"
	if n := len(s.Waiters); n > 0 {
		waiters = fmt.Sprintf("%d: %s", n, strings.ReplaceAll(fileWords.processes(s.Waiters), "pid ", ""))
	}
	path := s.Path
	if here, err := os.Getwd(); err == nil && below(here, path) {
		path, _ = filepath.Rel(here, path)
	}
	return []string{string(s.State), visible(path), who, age, waiters}
}

// fit gives each column the width of its widest cell, and takes from the widest ones until
// a line fits. A terminal that is too narrow even so cuts the lines.
func fit(rows [][]string, width int) []int {
	const least = 6
	widths := make([]int, len(rows[0]))
	total := gap * (len(widths) - 1)
	for j := range widths {
		for _, cells := range rows {
			widths[j] = max(widths[j], columns(cells[j]))
		}
		total += widths[j]
	}
	for ; total > width; total-- {
		widest := 0
		for j := range widths {
			if widths[j] > widths[widest] {
				widest = j
			}
		}
		if widths[widest] <= least {
			break
		}
		widths[widest]--
	}
	return widths
}

// columns is how many columns of a terminal a printable text takes.
func columns(s string) (n int) {
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

// runeColumns goes by Unicode's East Asian Width, roughly: a terminal that sees it otherwise
// does not wrap the line.
func runeColumns(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff,
		r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// cutEnd leaves out the end of a text that takes more than n columns, and cutBegin the
// beginning.
func cutEnd(s string, n int) string {
	if columns(s) <= n {
		return s
	}
	kept := []rune(s)
	for len(kept) > 0 && columns(string(kept))+len(cut) > n {
		kept = kept[:len(kept)-1]
	}
	return string(kept) + string(cut[:min(n, len(cut))])
}

func cutBegin(s string, n int) string {
	if columns(s) <= n {
		return s
	}
	kept := []rune(s)
	for len(kept) > 0 && (columns(string(kept))+len(cut) > n || runeColumns(kept[0]) == 0) {
		kept = kept[1:]
	}
	return string(cut[:min(n, len(cut))]) + string(kept)
}

// cut stands for what is left out.
var cut = []rune("…")
