package pg_test

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
	gate  chan struct{} // if set, keeps what comes, but for requests to cancel, until it is closed
	pid   uint32        // if set, what clients are told that their server process is
	last  int           // a connection on which what clients say is kept back
	heard chan struct{} // if set, until it is closed, as another one has had an answer
	conns []net.Conn
}

func newProxy(t testing.TB, conn string) *proxy {
	t.Helper()
	config, err := pgx.ParseConfig(conn)
	check(t, err)
	dir, err := os.MkdirTemp("", "px")
	check(t, err)
	p := &proxy{dir: dir, server: filepath.Join(config.Host, ".s.PGSQL.5432")}
	p.listener, err = net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	check(t, err)
	p.tcp, err = net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
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

// pause keeps everything back until a request to cancel has been answered.
func (p *proxy) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate = make(chan struct{})
}

// holdBack keeps what a client says next on a connection, the which-th, until the server has
// answered on another one.
func (p *proxy) holdBack(which int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.heard = which, make(chan struct{})
}

func (p *proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
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
		pid, n := p.pid, p.made
		p.mu.Unlock()
		go p.pump(server, client, n, true)
		go func() {
			if pid != 0 {
				disguise(client, server, pid)
			}
			p.pump(client, server, n, false)
		}()
	}
}

func (p *proxy) pump(to, from net.Conn, which int, toServer bool) {
	for buf := make([]byte, 4096); ; {
		n, err := from.Read(buf)
		p.mu.Lock()
		delay, heard := p.delay, p.heard
		kept := heard != nil && which == p.last
		hole, gate := p.hole || which <= p.lost, p.gate
		if n == 0 && gate != nil {
			close(gate)
			p.gate = nil
		}
		p.mu.Unlock()
		if gate != nil && n > 0 && !isCancel(buf[:n]) {
			<-gate
		}
		if hole { // the end of one side is not known to the other, either
			for err == nil {
				p.mu.Lock()
				p.gone += n
				p.mu.Unlock()
				n, err = from.Read(buf)
			}
			return
		}
		if kept && toServer {
			<-heard
		}
		if time.Sleep(delay); n > 0 {
			_, _ = to.Write(buf[:n])
		}
		if heard != nil && !kept && !toServer {
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
