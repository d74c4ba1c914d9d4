package etcd_test

import (
	"bytes"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A network is what connections to members go through. It can cut members off, as one does
// that drops what is sent: connections are accepted, and none is closed, and nothing comes
// through, in either direction, until it heals. What was sent meanwhile comes then, if both
// ends are still there.
type network struct {
	mu        sync.Mutex // guards what follows
	cut       map[string]bool
	changed   chan struct{} // closed, and replaced, when anything is cut or heals
	over      bool
	listeners []net.Listener
	conns     []net.Conn
	tasks     sync.WaitGroup
}

func newNetwork(t testing.TB) *network {
	n := &network{cut: map[string]bool{}, changed: make(chan struct{})}
	t.Cleanup(n.end)
	return n
}

func (n *network) end() {
	n.mu.Lock()
	n.over = true
	close(n.changed)
	for _, l := range n.listeners {
		l.Close()
	}
	for _, c := range n.conns {
		c.Close()
	}
	n.mu.Unlock()
	n.tasks.Wait()
}

// set cuts off what is named, or has it heal.
func (n *network) set(cut bool, names ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range names {
		n.cut[name] = cut
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

// asPeer and asServer name what a member has to do with the others, and with clients.
func asPeer(name string) string   { return "peer " + name }
func asServer(name string) string { return "server " + name }

// asPeer is what is cut if a member is cut off from the others: what is sent to it, by its
// name; what it sends, by its id; and what does not say who sends it, of which what it asks of
// the leader for its clients, more time for a lease say, is a part.
func (m *member) asPeer(t testing.TB, client *clientv3.Client) []string {
	t.Helper()
	status := must(client.Status(limited(t), m.config.Client))(t)
	return []string{asPeer(m.config.Name), asPeer(strconv.FormatUint(status.Header.MemberId, 16)), asPeer("")}
}

// before returns a URL that leads to another one of a member, and is cut when that is which
// is named.
func (n *network) before(to, name string) (string, error) {
	u, err := url.Parse(to)
	if err != nil {
		return "", err
	}
	host := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	n.mu.Lock()
	n.listeners = append(n.listeners, l)
	n.mu.Unlock()
	n.tasks.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			n.tasks.Go(func() { n.connect(from, host, name) })
		}
	})
	u.Host = l.Addr().String()
	return u.String(), nil
}

// keep notes a connection that ends with the network; not if it has ended.
func (n *network) keep(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		c.Close()
		return false
	}
	n.conns = append(n.conns, c)
	return true
}

func (n *network) connect(from net.Conn, host, name string) {
	defer from.Close()
	if !n.keep(from) {
		return
	}
	first := make([]byte, 16<<10)
	size, err := from.Read(first)
	if err != nil {
		return
	}
	ends := []string{name}
	if strings.HasPrefix(name, asPeer("")) {
		ends = append(ends, asPeer(sender(first[:size])))
	}
	if !n.pass(ends) {
		return
	}
	to, err := net.Dial("tcp", host)
	if err != nil {
		return
	}
	defer to.Close()
	if !n.keep(to) {
		return
	}
	if _, err := to.Write(first[:size]); err != nil {
		return
	}
	n.tasks.Go(func() { n.pump(from, to, ends) })
	n.pump(to, from, ends)
}

// sender is the id of the member that a request of one to another comes from, if it says so:
// all do in which they tell each other of the log.
func sender(request []byte) string {
	_, id, _ := bytes.Cut(request, []byte("X-Server-From: "))
	id, _, _ = bytes.Cut(id, []byte("\r\n"))
	return string(id)
}

// pass waits until none of the ends is cut off. It is false when the network has ended.
func (n *network) pass(ends []string) bool {
	for {
		n.mu.Lock()
		held, over, changed := false, n.over, n.changed
		for _, end := range ends {
			held = held || n.cut[end]
		}
		n.mu.Unlock()
		if over || !held {
			return !over
		}
		<-changed
	}
}

func (n *network) pump(to, from net.Conn, ends []string) {
	defer to.Close()
	for text := make([]byte, 16<<10); ; {
		size, err := from.Read(text)
		if !n.pass(ends) {
			return
		}
		if size > 0 {
			if _, err := to.Write(text[:size]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
