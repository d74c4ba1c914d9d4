package pg_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/holdfast-go/holdfast/lock/pg/pgtest"
	"github.com/jackc/pgx/v5"
)

// wantRefused checks that Open fails, and says how to help.
func wantRefused(t testing.TB, o pg.Options, is error, says string) {
	t.Helper()
	l, err := pg.Open(limited(t), o)
	if l != nil {
		l.Close()
		t.Fatal("opened")
	}
	that(t, errors.Is(err, is) && strings.Contains(err.Error(), says), "error is %v, want %v, with %q", err, is, says)
}

// TestOpenOfStandby: its locks are none of the primary's.
func TestOpenOfStandby(t *testing.T) {
	t.Parallel()
	s := must(pgtest.Start())(t)
	defer func() { check(t, s.Stop()) }()
	check(t, s.End())
	check(t, s.Standby())
	check(t, s.Run())
	wantRefused(t, pg.Options{Conn: s.Conn()}, pg.ErrServer, "standby")
}

// TestOpenOfReadOnly: a database that is read-only by default, and says so by role or in
// the connection string, is none the less.
func TestOpenOfReadOnly(t *testing.T) {
	conn := database(t)
	c := raw(t, conn)
	exec1(t, c, "DO $$BEGIN EXECUTE 'ALTER DATABASE '||current_database()||' SET default_transaction_read_only = on'; END$$")
	l := open(t, pg.Options{Conn: conn + " default_transaction_read_only=on"})
	check(t, acquire(t, l, key()).Release())
}

// TestSchemasOfTwoRoles: with a search_path each they have one fence, and names.
func TestSchemasOfTwoRoles(t *testing.T) {
	conn := database(t)
	c, k := raw(t, conn), key()
	var last int64
	var lockers []*pg.Locker
	for range 2 {
		role := role(t, c)
		exec1(t, c, "CREATE SCHEMA "+role+" AUTHORIZATION "+role)
		exec1(t, c, "ALTER ROLE "+role+" SET search_path = "+role)
		if lockers == nil {
			exec1(t, c, pg.Schema("holdfast"))
		}
		mayLock(t, c, role)
		lockers = append(lockers, open(t, pg.Options{Conn: as(conn, role)}))
	}
	for range 3 {
		for _, l := range lockers {
			held := acquire(t, l, k)
			fence := must(held.Fence())(t)
			that(t, fence > last, "fence %d, after %d", fence, last)
			last = fence
			check(t, held.Release())
		}
	}
}

// TestSchemaByName, with one that must be quoted.
func TestSchemaByName(t *testing.T) {
	conn := database(t)
	l := open(t, pg.Options{Conn: conn, Schema: `My "locks'`})
	held := acquire(t, l, key())
	noErr(t, errOf(held.Fence()))
	if entries := listed(t, l); len(entries) != 1 || entries[0].Key != held.Key() {
		t.Errorf("listed: %+v", entries)
	}
	check(t, held.Release())
	equal(t, value[int](t, raw(t, conn), `SELECT count(*) FROM "My ""locks'".names`), 1, "names")
}

// TestSettings: they are there before the first lock is, by way of the connection itself.
// On a socket the server has no TCP to set.
func TestSettings(t *testing.T) {
	t.Parallel()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	port := listener.Addr().(*net.TCPAddr).Port
	check(t, listener.Close())
	s := must(pgtest.Start("listen_addresses='127.0.0.1'", fmt.Sprint("port=", port)))(t)
	defer func() { check(t, s.Stop()) }()
	_, after, _ := strings.Cut(s.Conn(), " port=5432")
	l := open(t, pg.Options{Conn: fmt.Sprint("host=127.0.0.1 port=", port, after), Lease: time.Minute})
	check(t, acquire(t, l, key()).Release())
	l.Idle(limited(t), func(c *pgx.Conn) {
		for setting, want := range map[string]string{
			"tcp_user_timeout": "10000", "tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3",
			"client_connection_check_interval": "2s", "idle_session_timeout": "1min", "statement_timeout": "0", "search_path": "pg_catalog",
		} {
			equal(t, value[string](t, c, "SHOW "+setting), want, setting)
			// A setting of the connection is what RESET goes back to.
			exec1(t, c, "RESET "+setting)
			if got := value[string](t, c, "SHOW "+setting); got != want {
				t.Errorf("%s is %s after RESET, want %s", setting, got, want)
			}
		}
	})
}

// bouncer starts pgbouncer before the server, and returns how to connect.
func bouncer(t testing.TB, mode string, settings ...string) (conn string) {
	t.Helper()
	exe, err := exec.LookPath("pgbouncer")
	if err != nil {
		exe = "/usr/sbin/pgbouncer"
		if _, err := os.Stat(exe); err != nil {
			t.Skip("needs pgbouncer (Debian: pgbouncer), to have a pooler in between")
		}
	}
	dir := must(os.MkdirTemp("", "pb"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o777)) // a pooler of another user puts its socket there
	config := must(pgx.ParseConfig(server.Conn()))(t)
	users, ini := filepath.Join(dir, "users"), filepath.Join(dir, "ini")
	check(t, os.WriteFile(users, []byte(`"holdfast" ""`+"\n"), 0o644))
	check(t, os.WriteFile(ini, []byte(strings.Join(append([]string{
		"[databases]", "postgres = host=" + config.Host + " port=5432", "[pgbouncer]", "listen_addr=", "listen_port=5432",
		"unix_socket_dir=" + dir, "auth_type=trust", "auth_file=" + users, "pool_mode=" + mode, "default_pool_size=1", "max_client_conn=50",
	}, settings...), "\n")+"\n"), 0o644))
	for _, file := range []string{users, ini} { // whatever the umask
		check(t, os.Chmod(file, 0o644))
	}
	cmd := exec.Command(exe, ini)
	cmd.SysProcAttr = pgtest.Unprivileged() // as it refuses to run as root
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, dir
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
	})
	conn = strings.Replace(server.Conn(), "host="+config.Host, "host="+dir, 1)
	eventually(t, "pgbouncer answers", func() bool {
		c, err := pgx.Connect(limited(t), conn)
		if err == nil {
			_ = c.Close(limited(t))
		} else if strings.Contains(out.String(), "FATAL") {
			t.Fatal(out.String())
		}
		return err == nil
	})
	return conn
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var _ io.Writer = (*lockedBuffer)(nil)

// TestPooler: it is refused in whichever mode, and what it lends to others is as it was.
func TestPooler(t *testing.T) {
	for _, mode := range []string{"transaction", "session"} {
		for _, ignores := range []string{"", "ignore_startup_parameters=extra_float_digits,statement_timeout,lock_timeout,search_path," +
			"default_transaction_read_only,synchronous_commit,idle_session_timeout,idle_in_transaction_session_timeout,tcp_user_timeout," +
			"tcp_keepalives_idle,tcp_keepalives_interval,tcp_keepalives_count,client_connection_check_interval,default_transaction_isolation"} {
			t.Run(fmt.Sprint(mode, " ignores=", ignores != ""), func(t *testing.T) {
				conn := bouncer(t, mode, ignores)
				c := must(pgx.Connect(limited(t), conn))(t)
				exec1(t, c, "SET statement_timeout = '5min'") // as another client, of the one session
				exec1(t, c, "SET default_transaction_read_only = on")
				if mode == "session" { // where each has a session, until it goes
					check(t, c.Close(limited(t)))
				}
				wantRefused(t, pg.Options{Conn: conn}, pg.ErrPooler, "pooler")
				if mode == "session" {
					return
				}
				defer c.Close(limited(t))
				for setting, want := range map[string]string{"statement_timeout": "5min", "default_transaction_read_only": "on"} {
					var got string
					check(t, c.QueryRow(limited(t), "SHOW "+setting, pgx.QueryExecModeSimpleProtocol).Scan(&got))
					that(t, got == want, "%s of a session that others use is %s, was %s", setting, got, want)
				}
			})
		}
	}
}

// TestListAfterRestart: a look is not spoilt by a server that was started anew.
func TestListAfterRestart(t *testing.T) {
	t.Parallel()
	s := must(pgtest.Start())(t)
	defer func() { check(t, s.Stop()) }()
	l := open(t, pg.Options{Conn: s.Conn()})
	check(t, s.End())
	check(t, s.Run())
	equal(t, len(listed(t, l)), 0, "are listed")
	k := lock.Key{Space: "numbers", Name: "1"}
	check(t, l.Register(limited(t), "numbers", 1))
	check(t, acquire(t, l, k).Release())
}
