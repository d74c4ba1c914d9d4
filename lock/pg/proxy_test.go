package pg_test

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// proxy is a network between clients and a server, which can fail.
type proxy struct {
	dir, server string
	listener    net.Listener
	tcp         net.Listener // another way to it

	mu    sync.Mutex    // guards what follows
	hole  bool          // swallows what comes, both ways
	lost  int           // of the connections, how many are swallowed whatever hole says
	made  int           // how many there have been
	gone  int           // how many bytes were swallowed
	delay time.Duration // of each packet
	pid   uint32        // if set, what clients are told that their server process is
	of    uint32        // the server process to which what its client says is kept back
	kept  chan struct{} // if set, closed when that has begun
	gate  chan struct{} // if set, until it is closed, as a request to cancel was answered
	heard chan struct{} // if set, until it is closed, as another process has answered
	conns []net.Conn
	pids  map[int]uint32 // the server processes of connections
}

func newProxy(t testing.TB, conn string) *proxy {
	t.Helper()
	config := must(pgx.ParseConfig(conn))(t)
	dir := must(os.MkdirTemp("", "px"))(t)
	p := &proxy{dir: dir, pids: map[int]uint32{}, server: filepath.Join(config.Host, ".s.PGSQL.5432")}
	p.listener = must(net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432")))(t)
	p.tcp = must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go p.serve(p.tcp)
	go p.serve(p.listener)
	t.Cleanup(func() {
		_ = p.listener.Close()
		_ = p.tcp.Close()
		p.cut()
		_ = os.RemoveAll(dir)
	})
	return p
}

// through is a connection string for what a connection string says, by way of p.
func (p *proxy) through(conn string) string {
	return strings.Replace(conn, "host="+filepath.Dir(p.server), "host="+p.dir, 1)
}

// throughTCP is through, by TCP.
func (p *proxy) throughTCP(conn string) string {
	host, port, _ := net.SplitHostPort(p.tcp.Addr().String())
	return strings.Replace(conn, "host="+filepath.Dir(p.server)+" port=5432", "host="+host+" port="+port, 1)
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// swallow has nothing come through any more, in either direction, and says nothing.
func (p *proxy) swallow(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hole = on
}

// slow delays all that comes, each way.
func (p *proxy) slow(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = by
}

func (p *proxy) swallowed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// swallowOld is swallow for the connections that there are, and for good.
func (p *proxy) swallowOld() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = p.made
}

func (p *proxy) pretend(pid uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pid = pid
}

// pause keeps back what a client says to a server process, until a request to cancel has been
// answered. kept is closed when it has said something.
func (p *proxy) pause(pid int) (kept <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of, p.kept, p.gate = uint32(pid), make(chan struct{}), make(chan struct{})
	return p.kept
}

// holdBack keeps back what a client says to a server process, until another one has answered.
func (p *proxy) holdBack(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of, p.heard = uint32(pid), make(chan struct{})
}

func isCancel(packet []byte) bool {
	return len(packet) >= 8 && binary.BigEndian.Uint32(packet[4:]) == 80877102
}

func (p *proxy) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.made++
		pid, n, cancels := p.pid, p.made, &atomic.Bool{}
		p.mu.Unlock()
		go p.pump(server, client, n, true, cancels)
		go func() {
			if pid != 0 {
				disguise(client, server, pid)
			}
			p.pump(client, server, n, false, cancels)
		}()
	}
}

// pump passes on what is said in one direction. cancels is whether the connection is a request to
// cancel.
func (p *proxy) pump(to, from net.Conn, which int, toServer bool, cancels *atomic.Bool) {
	var greeting []byte // of the server, until it has told which process it is
	for buf := make([]byte, 4096); ; {
		n, err := from.Read(buf)
		if toServer && isCancel(buf[:n]) {
			cancels.Store(true)
		}
		p.mu.Lock()
		if !toServer && p.pids[which] == 0 {
			greeting = append(greeting, buf[:n]...)
			p.pids[which] = processOf(greeting)
		}
		delay, gate, heard, hole := p.delay, p.gate, p.heard, p.hole || which <= p.lost
		keep := p.of != 0 && p.pids[which] == p.of
		if keep && toServer && n > 0 && p.kept != nil {
			close(p.kept)
			p.kept = nil
		}
		if err != nil && cancels.Load() && gate != nil {
			close(gate)
			p.gate = nil
		}
		p.mu.Unlock()
		if hole { // the end of one side is not known to the other, either
			for err == nil {
				p.mu.Lock()
				p.gone += n
				p.mu.Unlock()
				n, err = from.Read(buf)
			}
			return
		}
		if keep && toServer && n > 0 {
			for _, until := range []chan struct{}{gate, heard} {
				if until != nil {
					<-until
				}
			}
		}
		if time.Sleep(delay); n > 0 {
			_, _ = to.Write(buf[:n])
		}
		if heard != nil && !keep && !toServer {
			p.mu.Lock()
			if p.heard == heard {
				close(heard)
				p.heard = nil
			}
			p.mu.Unlock()
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

// processOf is the server process that BackendKeyData names, or 0 if that has not come yet.
func processOf(greeting []byte) uint32 {
	for len(greeting) >= 9 {
		if greeting[0] == 'K' {
			return binary.BigEndian.Uint32(greeting[5:])
		}
		greeting = greeting[min(len(greeting), 1+int(binary.BigEndian.Uint32(greeting[1:]))):]
	}
	return 0
}

// disguise passes on what a server says up to BackendKeyData, in which it changes the
// process, as a pooler does.
func disguise(client, server net.Conn, pid uint32) {
	for head := make([]byte, 5); ; {
		if _, err := io.ReadFull(server, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		if head[0] == 'K' {
			binary.BigEndian.PutUint32(body, pid)
		}
		if _, err := client.Write(append(head[:5:5], body...)); err != nil || head[0] == 'K' {
			return
		}
	}
}
