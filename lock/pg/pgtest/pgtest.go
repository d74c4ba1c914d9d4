// Package pgtest starts a PostgreSQL server for tests: a real one, on a Unix socket
// in a temporary folder, as an unprivileged user, and stops it afterwards.
package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Server is a server that runs. Its methods are for one goroutine at a time.
type Server struct {
	dir  string // has the data, the socket, and the log
	bin  string // has postgres, initdb and pg_ctl
	cmd  *exec.Cmd
	done chan error
}

// ErrMissing is returned by Start where PostgreSQL's server is not installed.
var ErrMissing = errors.New("PostgreSQL's server is not installed (Debian: postgresql)")

// Start makes a cluster and starts its server. settings, such as
// "max_connections=200", are added to those that are good for tests. The caller must
// Stop it.
func Start(settings ...string) (*Server, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	return StartAt(bin, settings...)
}

// StartAt is Start for the server whose programs are in a folder.
func StartAt(bin string, settings ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "pg") // short: the socket's path may have 107 bytes
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin}
	if err := s.make(settings); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.Run(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// find returns the folder of the newest server.
func find() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			found = append(found, path)
		}
	}
	for _, path := range slices.Backward(found) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "initdb")); err == nil {
			return filepath.Dir(path), nil
		}
	}
	return "", ErrMissing
}

func (s *Server) make(settings []string) error {
	if err := giveAway(s.dir); err != nil {
		return err
	}
	initdb := exec.Command(filepath.Join(s.bin, "initdb"), "-D", s.data(), "-U", "holdfast", "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
	initdb.SysProcAttr, initdb.Dir = Unprivileged(), s.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	config, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	lines := append([]string{
		"listen_addresses=''", "unix_socket_directories='" + s.dir + "'",
		"max_connections=200", "shared_buffers=32MB", "fsync=on",
	}, settings...)
	_, err = config.WriteString("\n" + strings.Join(lines, "\n") + "\n")
	if err := errors.Join(err, config.Close()); err != nil {
		return err
	}
	// Only the test reaches it: it listens where the settings say, or nowhere.
	hosts, err := os.OpenFile(filepath.Join(s.data(), "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = hosts.WriteString("\nhost all all all trust\n")
	return errors.Join(err, hosts.Close())
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// startPatience is how long a server may take to start, and a killed one to be gone.
const startPatience = time.Minute

// Run starts the server, anew after End or Kill, and waits until it answers.
func (s *Server) Run() error {
	for deadline := time.Now().Add(startPatience); ; time.Sleep(10 * time.Millisecond) {
		err := s.run(deadline)
		// The children of a killed server notice within a moment, and no other may start
		// before.
		if err == nil || time.Now().After(deadline) || !strings.Contains(err.Error(), "still in use") {
			return err
		}
	}
}

func (s *Server) run(deadline time.Time) error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(filepath.Join(s.bin, "postgres"), "-D", s.data())
	s.cmd.SysProcAttr, s.cmd.Dir = dying(Unprivileged()), s.dir
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.done = make(chan error, 1)
	go func() { s.done <- s.cmd.Wait() }()
	for ; ; time.Sleep(10 * time.Millisecond) {
		// The first line says whose it is: a server that was killed leaves its own. The last
		// says "ready" once connections are accepted.
		state, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
		if err == nil && bytes.HasPrefix(state, fmt.Appendf(nil, "%d\n", s.cmd.Process.Pid)) &&
			(bytes.HasSuffix(bytes.TrimSpace(state), []byte("ready")) || bytes.HasSuffix(bytes.TrimSpace(state), []byte("standby"))) {
			return nil
		}
		select {
		case err := <-s.done:
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("the server ended: %w\n%s", err, text)
		default:
		}
		if time.Now().After(deadline) {
			return errors.Join(errors.New("the server did not become ready"), s.Kill())
		}
	}
}

// Standby makes the server a standby, with no primary, at its next start.
func (s *Server) Standby() error {
	f, err := os.OpenFile(filepath.Join(s.data(), "standby.signal"), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// Conn is a connection string for the server.
func (s *Server) Conn() string {
	return "host=" + s.dir + " port=5432 user=holdfast dbname=postgres sslmode=disable"
}

// End stops the server as an administrator would, ending its sessions.
func (s *Server) End() error { return s.signal(os.Interrupt) }

// Kill stops the server at once.
func (s *Server) Kill() error { return s.signal(os.Kill) }

func (s *Server) signal(sig os.Signal) error {
	if err := s.cmd.Process.Signal(sig); err != nil {
		return err
	}
	err := <-s.done
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return err
}

// Stop stops the server, and removes all there is of it.
func (s *Server) Stop() error {
	err := s.End()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
