package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// doomed is the id of a hook, or of a turn, in the middle of which its process comes to
// a stop.
const doomed = "doomed"

// cycle is how often the workers come.
const cycle = 50 * time.Millisecond

// serve is a process of the application: its arguments are a site, as JSON, and its
// name. It says where it listens, and goes on until its input ends.
func serve(args []string) error {
	var s site
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		return err
	}
	name := args[1]
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
	*testkit.Child
	t    *testing.T
	name string
	url  string
}

func start(t *testing.T, s site, name string) *service {
	t.Helper()
	data := must(json.Marshal(s))(t)
	c := testkit.Start(t, "service", string(data), name)
	return &service{c, t, name, "http://" + c.Answer()}
}

// end has the process finish what it has begun.
func (p *service) end() {
	p.t.Helper()
	noErr(p.t, p.End(), p.name)
}
