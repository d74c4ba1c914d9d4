package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/holdfast-go/holdfast/lock/pg/pgtest"
	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) {
	testkit.Play(func(_ string, args []string) {
		if err := serve(args); err != nil {
			fmt.Fprintln(os.Stderr, "service:", err)
			os.Exit(1)
		}
	})
	os.Exit(testkit.Run(suite{m}))
}

// suite runs the tests, and stops the server that they have started.
type suite struct{ *testing.M }

func (s suite) Run() int {
	code := s.M.Run()
	if running.Load() {
		if server, err := startServer(); err == nil {
			_ = server.Stop()
		}
	}
	return code
}

// startServer starts the one server that all tests use, on which each has a database.
var (
	running     atomic.Bool
	startServer = sync.OnceValues(func() (*pgtest.Server, error) {
		running.Store(true)
		return pgtest.Start()
	})
	databases atomic.Int32
)

// site is one state, which processes of the application work on.
type site struct {
	Dir  string // of the oracle, the config, and what the engine has in files
	Conn string // of the database; if "", all is in files
	Pool string // settings for the pool of the locks
}

// onEachEngine runs a test with the locks, and the application's state, in files and
// in PostgreSQL.
func onEachEngine(t *testing.T, test func(t *testing.T, s site)) {
	t.Run("files", func(t *testing.T) { test(t, site{Dir: t.TempDir()}) })
	t.Run("postgres", func(t *testing.T) {
		server, err := startServer()
		if errors.Is(err, pgtest.ErrMissing) {
			t.Skip("needs PostgreSQL, to have the locks in it: ", err)
		} else if err != nil {
			t.Fatal(err)
		}
		conn := must(pgx.Connect(t.Context(), server.Conn()))(t)
		defer conn.Close(context.Background())
		name := fmt.Sprint("scenario", databases.Add(1))
		check(t, errOf(conn.Exec(t.Context(), "CREATE DATABASE "+name)))
		test(t, site{Dir: t.TempDir(), Conn: strings.Replace(server.Conn(), "dbname=postgres", "dbname="+name, 1)})
	})
}

// open returns a process of the application, though it may be in this one, and what
// ends it. Its locks are its own.
func (s site) open(name string, observer func(lock.Event)) (*App, func(), error) {
	a := &App{Name: name, Config: filepath.Join(s.Dir, "config.json"), HookTimeout: HookTimeout}
	if s.Conn == "" {
		folder := filepath.Join(s.Dir, "locks")
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return nil, nil, err
		}
		a.Locks = lock.Dir{Path: folder, File: lock.File{Cmd: name, Observe: observer}}
		var err error
		a.Store, err = NewFiles(filepath.Join(s.Dir, "state"), a.Locks)
		return a, func() {}, err
	}
	locks, err := pg.Open(context.Background(), pg.Options{Conn: s.Conn + " " + s.Pool, Cmd: name, Observe: observer})
	if err != nil {
		return nil, nil, err
	}
	store, end, err := NewPostgres(context.Background(), s.Conn)
	if err != nil {
		locks.Close()
		return nil, nil, err
	}
	a.Locks, a.Store = locks, store
	return a, func() { end(); locks.Close() }, nil
}
