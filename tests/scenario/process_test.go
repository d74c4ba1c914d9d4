package scenario

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"
)

// roleVar tells the test binary to be a process of the application instead.
const roleVar = "HOLDFAST_TEST_ROLE"

// doomed is the id of a hook, or of a turn, in the middle of which its process comes to
// a stop.
const doomed = "doomed"

// cycle is how often the workers come.
const cycle = 50 * time.Millisecond

// serve is a process of the application: its arguments are a site, as JSON, and its
// name. It says where it listens, and goes on until its input ends.
func serve() error {
	var s site
	if err := json.Unmarshal([]byte(os.Args[1]), &s); err != nil {
		return err
	}
	name := os.Args[2]
	o, err := newOracle(s.Dir, name)
	if err != nil {
		return err
	}
	app, end, err := s.open(name, nil)
	if err != nil {
		return err
	}
	defer end()
	app.Outside = o.outside()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: app.Handler()}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	ticks, background := make(chan time.Time), make(chan error, 1)
	go func() { background <- app.Background(context.Background(), ticks) }()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, os.Stdin)
	}()
	fmt.Println(listener.Addr())
	ticker := time.NewTicker(cycle)
	for {
		select {
		case <-ended:
			err := server.Shutdown(context.Background())
			app.Wait()
			close(ticks)
			return errors.Join(err, <-background)
		case now := <-ticker.C:
			select {
			case ticks <- now:
			default: // it is still at the last one
			}
		case err := <-background:
			return fmt.Errorf("background: %w", err)
		case err := <-served:
			return err
		}
	}
}

// outside is seen by the oracle, and otherwise nothing happens in it.
func (o *oracle) outside() Outside {
	return Outside{
		Processing: func(agent, what string) func() {
			leave := o.enter(agent)
			comeToAStop(what)
			return leave
		},
		Announce: o.saw,
		Call: func(turn Turn) (string, error) {
			o.saw("call", turn.ID)
			comeToAStop(turn.ID)
			return "in short: " + turn.Prompt, nil
		},
		Inject: func(agent string) error {
			o.saw("inject", agent)
			return nil
		},
		Sleep: time.Sleep,
	}
}

func comeToAStop(id string) {
	if id == doomed {
		fmt.Println(doomed)
		select {}
	}
}

// service is such a process.
type service struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	lines chan string
	url   string
}

func start(t *testing.T, s site, name string) *service {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &service{t: t, name: name, cmd: exec.Command(exe, string(data), name), lines: make(chan string, 10)}
	p.cmd.Env = append(os.Environ(), roleVar+"=service")
	p.cmd.Stderr = os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
	go func() {
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
		close(p.lines)
	}()
	p.url = "http://" + within(t, "the address of "+name, p.lines)
	return p
}

// kill ends the process in the middle of whatever it does.
func (p *service) kill() {
	p.cmd.Process.Kill()
	for range p.lines {
	}
	p.cmd.Wait()
}

// end has the process finish what it has begun.
func (p *service) end() {
	p.t.Helper()
	p.stdin.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range p.lines {
		}
	}()
	within(p.t, "the end of "+p.name, ended)
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("%s: %v", p.name, err)
	}
}
