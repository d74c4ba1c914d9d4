package benchmarks

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// roleVar tells the test binary to play a part in another process.
const roleVar = "HOLDFAST_BENCH_ROLE"

var roles = map[string]func(args []string, orders *bufio.Scanner){
	"waiter": waiter,
	"holder": holder,
	"worker": worker,
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		roles[role](os.Args[1:], bufio.NewScanner(os.Stdin))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// peer is a process that plays a role: orders go in, answers come out, a line
// each.
type peer struct {
	b      *testing.B
	cmd    *exec.Cmd
	orders *os.File
	lines  *bufio.Scanner
}

func play(b *testing.B, role string, args ...string) *peer {
	exe, err := os.Executable()
	check(b, err)
	p := &peer{b: b, cmd: exec.Command(exe, args...)}
	p.cmd.Env = append(os.Environ(), roleVar+"="+role)
	p.cmd.Stderr = os.Stderr
	in, orders, err := os.Pipe()
	check(b, err)
	p.cmd.Stdin, p.orders = in, orders
	out, err := p.cmd.StdoutPipe()
	check(b, err)
	p.lines = bufio.NewScanner(out)
	check(b, p.cmd.Start())
	in.Close()
	b.Cleanup(p.kill)
	return p
}

func (p *peer) order(line string) {
	_, err := fmt.Fprintln(p.orders, line)
	check(p.b, err)
}

// answer reads numbers.
func (p *peer) answer(into ...any) {
	p.b.Helper()
	if !p.lines.Scan() {
		p.b.Fatalf("a process went away without an answer: %v", p.lines.Err())
	}
	if len(into) > 0 {
		_, err := fmt.Sscan(strings.TrimSpace(p.lines.Text()), into...)
		check(p.b, err)
	}
}

func (p *peer) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
	p.orders.Close()
}

// clock is one that all processes share.
func clock() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}
