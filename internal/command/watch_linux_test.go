package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"
	"unsafe"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// A display is a terminal as a watch leaves it: it knows what a watch may send, and no more.
type display struct {
	t    *testing.T
	host *os.File // the terminal's side

	mu            sync.Mutex
	raw           string
	pending       string
	width, height int
	rows          []string // of the second screen
	x, y          int
	second        bool // the second screen is shown
	hidden        bool // the cursor is
	wraps         bool
	spilled       bool   // what was drawn last has been too wide, or too high
	strange       string // what it does not know
}

// showWatch runs a watch on a terminal of its own.
func showWatch(t *testing.T, width, height int, env []string, args ...string) (*display, *exec.Cmd) {
	t.Helper()
	host, tty := openTerminal(t)
	d := &display{t: t, host: host, wraps: true}
	cmd := child(t, append([]string{"watch", "-interval", "10ms"}, args...)...)
	cmd.Env = append(slices.DeleteFunc(cmd.Env, func(e string) bool { return strings.HasPrefix(e, "NO_COLOR=") }), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	d.resize(width, height)
	testkit.Check(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	go d.read()
	return d, cmd
}

func (d *display) resize(width, height int) {
	d.t.Helper()
	d.mu.Lock()
	d.width, d.height, d.rows, d.x, d.y = width, height, make([]string, height), 0, 0
	d.mu.Unlock()
	size := [4]uint16{uint16(height), uint16(width)}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, d.host.Fd(), syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&size))); errno != 0 {
		d.t.Fatal(errno)
	}
}

func (d *display) read() {
	data := make([]byte, 4096)
	for {
		n, err := d.host.Read(data)
		if err != nil {
			return
		}
		d.mu.Lock()
		d.raw += string(data[:n])
		d.pending += string(data[:n])
		d.draw()
		d.mu.Unlock()
	}
}

var escapeSequence = regexp.MustCompile(`^\x1b\[(\??)([0-9;]*)([A-Za-z])`)

// draw takes what has come whole.
func (d *display) draw() {
	for d.pending != "" {
		if s := escapeSequence.FindStringSubmatch(d.pending); s != nil {
			d.pending = d.pending[len(s[0]):]
			on := s[3] == "h"
			switch s[1] + s[2] + s[3] {
			case "?1049h", "?1049l":
				d.second, d.rows, d.x, d.y = on, make([]string, d.height), 0, 0
			case "?25h", "?25l":
				d.hidden = !on
			case "?7h", "?7l":
				d.wraps = on
			case "H":
				d.x, d.y, d.spilled = 0, 0, false
			case "K":
				d.rows[d.y] = string([]rune(d.rows[d.y])[:min(d.x, utf8.RuneCountInString(d.rows[d.y]))])
			case "J":
				clear(d.rows[d.y+1:])
			case "m", "32m", "31m", "33m", "2m":
			default:
				d.strange += s[0]
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(d.pending)
		if r == 0x1b || r == utf8.RuneError {
			return // not all of it is there
		}
		d.pending = d.pending[size:]
		switch {
		case r == '\r':
			d.x = 0
		case r == '\n':
			if d.y++; d.y >= d.height {
				d.y, d.spilled = d.height-1, true
			}
		case r < ' ':
			d.strange += strconv.Quote(string(r))
		default:
			row := append([]rune(d.rows[d.y]), slices.Repeat([]rune{' '}, d.x+1)...)
			row[d.x] = r
			d.rows[d.y] = strings.TrimRight(string(row), " ")
			d.x++
			d.spilled = d.spilled || d.x > d.width
		}
	}
}

// await waits until the second screen shows what a pattern matches, in rows.
func (d *display) await(pattern string) {
	d.t.Helper()
	p := regexp.MustCompile(pattern)
	shown := ""
	defer func() {
		if d.t.Failed() {
			d.t.Logf("shown:\n%s\n%q", shown, d.strange)
		}
	}()
	testkit.Eventually(d.t, pattern, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		shown = strings.Join(d.rows, "\n")
		return d.second && d.hidden && !d.wraps && !d.spilled && p.MatchString(shown)
	})
}

// press types a key, such as a Ctrl-C.
func (d *display) press(key byte) {
	d.t.Helper()
	_, err := d.host.Write([]byte{key})
	testkit.Check(d.t, err)
}

// wantRestored waits until the terminal is as it was, and nothing strange was sent.
func (d *display) wantRestored() {
	d.t.Helper()
	testkit.Eventually(d.t, "the terminal is as it was", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return !d.second && !d.hidden && d.wraps && d.pending == ""
	})
	if d.strange != "" {
		d.t.Errorf("sent: %q", d.strange)
	}
}

func (d *display) sent() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.raw
}

func modesOf(t *testing.T, tty *os.File) (modes syscall.Termios) {
	t.Helper()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), syscall.TCGETS, uintptr(unsafe.Pointer(&modes))); errno != 0 {
		t.Fatal(errno)
	}
	return modes
}

// TestWatch_Screen: a table that is drawn over, in whatever size; and the terminal is as it
// was before.
func TestWatch_Screen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.lock")
	wantCode(t, exitOK, "run", filepath.Join(dir, "b.lock"), "--", "true")
	d, cmd := showWatch(t, 200, 10, []string{"TERM=xterm"}, dir)
	before := modesOf(t, d.host)
	d.await(`(?s)^\d\d:\d\d:\d\d  0 held, 1 free, 0 dead, 0 unknown; 0 waiting\nSTATE +LOCK +HOLDER +SINCE +WAITERS\nfree +\S*b.lock +- +- +-\n+$`)
	holder := holdLock(t, path)
	pid := strconv.Itoa(holder.cmd.Process.Pid)
	d.await(`(?s)1 held, 1 free.*\nheld +\S*a.lock +` + pid + ` the holder +\d+s +-\nfree `)
	d.resize(40, 10)
	d.await(`(?s)1 held, 1 free, 0 d.*…\nSTATE +LOCK .*\nheld +…\S*a.lock +\S.*…`)
	d.resize(12, 2)
	d.await(`(?s)^\d\d:\d\d:\d\d  0?.…\n… and 3 more$`)
	d.resize(100, 4)
	d.await(`(?s)1 held, 1 free, 0 dead.*\nSTATE +LOCK .*\nheld .*\nfree +\S+b.lock`)
	holder.cmd.Process.Kill()
	holder.finish()
	d.await(`(?s)0 held, 1 free, 1 dead.*\ndead `)
	d.press(26) // Ctrl-Z: its group is orphaned, so that it goes on at once
	testkit.Eventually(t, "it leaves the screen, and comes back", func() bool {
		return strings.Contains(d.sent(), leaveScreen+enterScreen)
	})
	d.await(`(?s)1 dead`)
	d.press(3)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	d.wantRestored()
	if after := modesOf(t, d.host); after != before {
		t.Errorf("its modes are %+v, and were %+v", after, before)
	}
	wantText(t, d.sent(), colors["held"], colors["dead"])
}

// TestWatch_Plain: colors and all else that a terminal may not know can be had left out.
func TestWatch_Plain(t *testing.T) {
	dir := t.TempDir()
	dieHolding(t, filepath.Join(dir, "a.lock"))
	d, cmd := showWatch(t, 100, 10, []string{"TERM=xterm", "NO_COLOR=1"}, dir)
	d.await(`(?s)1 dead.*\ndead `)
	testkit.Check(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	d.wantRestored()
	if regexp.MustCompile(`\x1b\[[0-9;]*m`).MatchString(strings.ReplaceAll(d.sent(), plainText, "")) {
		t.Errorf("colors in %q", d.sent())
	}
	for _, plain := range [][]string{{"TERM=dumb"}, {"TERM=xterm", "-json"}} {
		d, cmd := showWatch(t, 100, 10, plain[:1], append(plain[1:], dir)...)
		testkit.Eventually(t, "a line", func() bool { return strings.Contains(d.sent(), "\n") })
		d.press(3)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		wantNoText(t, d.sent(), "\x1b")
		wantText(t, d.sent(), "dead", "a.lock")
	}
}
