package etcd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// A cluster is a real one, each of whose members is a process of its own: this test binary,
// started again. So a member can be killed, and stopped.
type cluster struct {
	dir     string
	members []*member
}

type member struct {
	config memberConfig
	cmd    *exec.Cmd
	alive  io.Closer // the member ends when this is closed
}

// memberConfig is handed to the process.
type memberConfig struct {
	Name, Dir, Client, Peer, Cluster string
	Token                            uint     // how long a token is good for, in seconds
	Secure                           string   // a folder with cert.pem and key.pem, for TLS; none if it is empty
	Program                          string   // an etcd that is run instead of ours, if it is set
	Advertised                       string   // where the other members find it
	between                          *network // what they go through, if it is set
}

// memberVar tells a process to be a member.
const memberVar = "HOLDFAST_ETCD_MEMBER"

// startCluster starts n members, and returns when all of them answer. The ports that were
// free may be others' by then: so it tries again.
func startCluster(n int, kind memberConfig) (c *cluster, err error) {
	for range 5 {
		if c, err = tryCluster(n, kind); err == nil {
			break
		}
	}
	return c, err
}

func tryCluster(n int, kind memberConfig) (*cluster, error) {
	dir, err := os.MkdirTemp("", "holdfast-etcd-")
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir}
	kind.Token = 3 // less, and on a busy machine each has expired when it is used
	var all []string
	for i := range n {
		m := &member{config: kind}
		m.config.Name, m.config.Dir = fmt.Sprint("m", i), filepath.Join(dir, fmt.Sprint("m", i))
		for _, url := range []*string{&m.config.Client, &m.config.Peer} {
			if *url, err = freeURL(); err != nil {
				return nil, err
			}
		}
		if kind.Secure != "" {
			m.config.Client = strings.Replace(m.config.Client, "http:", "https:", 1)
		}
		m.config.Advertised = m.config.Peer
		if kind.between != nil {
			if m.config.Advertised, err = kind.between.before(m.config.Peer, asPeer(m.config.Name)); err != nil {
				return nil, err
			}
		}
		all = append(all, m.config.Name+"="+m.config.Advertised)
		c.members = append(c.members, m)
	}
	ready := make(chan error, n)
	for _, m := range c.members {
		m.config.Cluster = strings.Join(all, ",")
		r := m.start()
		go func() { ready <- <-r }()
	}
	late := time.After(patience)
	for range n {
		select {
		case err = <-ready:
		case <-late:
			err = errors.New("the members don't get ready")
		}
		if err != nil {
			c.end() // the others would wait for ever for one that has failed
			return nil, err
		}
	}
	return c, nil
}

func freeURL() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return "http://" + l.Addr().String(), l.Close()
}

// start starts the member's process, and tells when it answers.
func (m *member) start() <-chan error {
	ready := make(chan error, 1)
	err := func() error {
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		text, err := json.Marshal(m.config)
		if err != nil {
			return err
		}
		m.cmd = exec.Command(exe)
		m.cmd.Env = append(os.Environ(), memberVar+"="+string(text), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
		m.cmd.Stderr = os.Stderr
		if m.alive, err = m.cmd.StdinPipe(); err != nil {
			return err
		}
		out, err := m.cmd.StdoutPipe()
		if err != nil {
			return err
		}
		go func() {
			line, err := bufio.NewReader(out).ReadString('\n')
			if err == nil && line != "ready\n" {
				err = fmt.Errorf("member: %s", line)
			}
			ready <- err
		}()
		return m.cmd.Start()
	}()
	if err != nil {
		ready <- err
	}
	return ready
}

func (m *member) kill() {
	m.alive.Close()
	if m.config.Program == "" { // else it is for our process to end it
		_ = m.cmd.Process.Kill()
	}
	_ = m.cmd.Wait()
}

func (c *cluster) end() {
	for _, m := range c.members {
		if m.cmd != nil && m.cmd.Process != nil {
			m.kill()
		}
	}
	os.RemoveAll(c.dir)
}

// beMember is the process of a member.
func beMember(text string) error {
	var c memberConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	if c.Program != "" {
		return runMember(c)
	}
	go func() { // ready or not
		_, _ = io.Copy(io.Discard, os.Stdin) // until who started us ends
		os.Exit(0)
	}()
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.InitialCluster, cfg.AuthTokenTTL = c.Name, c.Dir, c.Cluster, c.Token
	client, err := url.Parse(c.Client)
	if err != nil {
		return err
	}
	peer, err := url.Parse(c.Peer)
	if err != nil {
		return err
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	advertised, err := url.Parse(c.Advertised)
	if err != nil {
		return err
	}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*advertised}
	if !strings.Contains(c.Cluster, ",") {
		cfg.TickMs, cfg.ElectionMs = 50, 500 // so that a lease can be of one second
	}
	if c.Secure != "" {
		cfg.TickMs, cfg.ElectionMs = 300, 3000 // else a busy machine elects all the time
		cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = filepath.Join(c.Secure, certFile), filepath.Join(c.Secure, keyFile)
	}
	cfg.UnsafeNoFsync = true
	cfg.BcryptCost = 4
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	<-e.Server.ReadyNotify()
	fmt.Println("ready")
	return <-e.Err()
}

// runMember has another etcd be the member, until who started us ends.
func runMember(c memberConfig) error {
	cmd := exec.Command(c.Program, "--name", c.Name, "--data-dir", c.Dir,
		"--listen-client-urls", c.Client, "--advertise-client-urls", c.Client,
		"--listen-peer-urls", c.Peer, "--initial-advertise-peer-urls", c.Advertised, "--initial-cluster", c.Cluster,
		"--heartbeat-interval", "50", "--election-timeout", "500", "--logger", "zap", "--log-level", "fatal")
	if runtime.GOARCH != "amd64" {
		cmd.Env = append(os.Environ(), "ETCD_UNSUPPORTED_ARCH="+runtime.GOARCH)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.Client}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for { // until it is there
		if _, err := client.Get(ctx, "ready"); err == nil {
			break
		} else if ctx.Err() != nil {
			return err
		}
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

func (c *cluster) endpoints() (all []string) {
	for _, m := range c.members {
		all = append(all, m.config.Client)
	}
	return all
}

func (c *cluster) client(t testing.TB) *clientv3.Client {
	t.Helper()
	client := must(clientv3.New(clientv3.Config{Endpoints: c.endpoints(), Logger: zap.NewNop(), TLS: c.tls(t)}))(t)
	t.Cleanup(func() { client.Close() })
	return client
}

// leader waits until there is one.
func (c *cluster) leader(t testing.TB, client *clientv3.Client) *member {
	t.Helper()
	return leaderOf(t, client, c.members)
}

// leaderOf waits until one of some members leads.
func leaderOf(t testing.TB, client *clientv3.Client, members []*member) *member {
	t.Helper()
	var found *member
	eventually(t, "a leader", func() bool {
		for _, m := range members {
			ctx, cancel := context.WithTimeout(context.Background(), patience/10)
			status, err := client.Status(ctx, m.config.Client)
			cancel()
			if err == nil && status.Leader == status.Header.MemberId {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

// newCluster is a test's own.
func newCluster(t testing.TB, n int) *cluster {
	t.Helper()
	c := must(startCluster(n, memberConfig{}))(t)
	t.Cleanup(c.end)
	return c
}

// withUsers has the cluster let in users only: root, and app, who may read and write the
// prefix.
func (c *cluster) withUsers(t testing.TB) {
	t.Helper()
	admin := c.client(t)
	ctx := limited(t)
	_, err := admin.UserAdd(ctx, "root", "root")
	check(t, err)
	check(t, errOf(admin.UserGrantRole(ctx, "root", "root")))
	check(t, errOf(admin.RoleAdd(ctx, "locks")))
	_, err = admin.RoleGrantPermission(ctx, "locks", "holdfast/", clientv3.GetPrefixRangeEnd("holdfast/"), clientv3.PermissionType(clientv3.PermReadWrite))
	check(t, err)
	check(t, errOf(admin.UserAdd(ctx, "app", "secret")))
	check(t, errOf(admin.UserGrantRole(ctx, "app", "locks")))
	check(t, errOf(admin.AuthEnable(ctx)))
}

// root is a client of the one who may do anything.
func (c *cluster) root(t testing.TB) *clientv3.Client {
	t.Helper()
	root, err := clientv3.New(clientv3.Config{Endpoints: c.endpoints(), Logger: zap.NewNop(), Username: "root", Password: "root", TLS: c.tls(t)})
	check(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

func joined(c *cluster) string { return strings.Join(c.endpoints(), ",") }
