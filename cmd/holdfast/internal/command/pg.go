package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pgServer is the locks of a PostgreSQL database.
type pgServer struct {
	*pg.Locker
	name string
}

func openPG(ctx context.Context, conn, label string) (server, error) {
	name, err := nameOf(conn)
	if err != nil {
		return nil, err
	}
	// It becomes the application_name, of which the server keeps what is ASCII.
	l, err := pg.Open(ctx, pg.Options{Conn: conn, Cmd: strings.ReplaceAll(label, "…", "...")})
	if err != nil {
		return nil, err
	}
	if err := l.RegisterAll(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return &pgServer{l, name}, nil
}

func (p *pgServer) Name() string { return p.name }

func (p *pgServer) Holders(ctx context.Context, key lock.Key) (all []session, err error) {
	found, err := p.Locker.Holders(ctx, key)
	for _, s := range found {
		nonce := ""
		if !s.Started.IsZero() {
			nonce = fmt.Sprintf("%d-%d", s.PID, s.Started.UnixMicro())
		}
		all = append(all, session{s.PID, s.Started, s.Cmd, s.Host, s.Locks, nonce})
	}
	return all, err
}

func (p *pgServer) End(ctx context.Context, s session) (there bool, err error) {
	err = p.EndSession(ctx, pg.Session{PID: s.PID, Started: s.Started, Cmd: s.Cmd, Host: s.Host, Locks: s.Locks})
	if errors.Is(err, pg.ErrGone) {
		return false, nil
	}
	return true, err
}

var pgWords = words{
	flag: "--pg", process: "backend", from: "from", advice: pgAdvice, right: "pg_read_all_stats would let it",
	nobody:    "not known: it is no session's",
	lost:      "the session that had it has ended, or can't be heard any more",
	lostWhy:   "the server or the network went away, or someone ended that session",
	lostLater: "the server or the network went away while the command ran, or someone ended that session",
	leftover:  "its session ends now, and the lock with it",
}

func (p *pgServer) words() *words { return &pgWords }

func pgAdvice(s lock.Status) []string {
	switch {
	case s.State == evidence.Free:
		return nil
	case s.Evidence == evidence.Prepared:
		return []string{"it ends with COMMIT PREPARED or ROLLBACK PREPARED; which one that is:", "  SELECT * FROM pg_prepared_xacts"}
	}
	advice := endAdvice(s, "--pg")
	pid := 0
	switch {
	case s.Info != nil:
		pid = s.Info.PID
	case len(s.Processes) == 1:
		pid = s.Processes[0].PID
	default:
		return advice
	}
	if s.Path == "" {
		advice = append(advice, fmt.Sprintf("  SELECT pg_terminate_backend(%d)", pid))
	}
	return append(advice, fmt.Sprintf("who that is: SELECT * FROM pg_stat_activity WHERE pid = %d", pid))
}

// nameOf names a database for people. It refuses a connection string that can't be read, and
// one where a part of a password was taken for something else: the server and the system
// would quote that.
func nameOf(conn string) (string, error) {
	config, err := pgxpool.ParseConfig(conn)
	if err != nil {
		return "", misused("--pg: the connection string can't be read%s", reason(conn, err))
	}
	c := config.ConnConfig
	parts := []string{c.Host, c.Database, c.User}
	for name, value := range c.RuntimeParams {
		parts = append(parts, name, value)
	}
	wrong := ""
	switch {
	case strings.Contains(strings.Join(parts, " "), "password"):
		wrong = "its password is part of something else; it is a URL, or KEY=VALUE pairs"
	case strings.Contains(c.Host, "@"), isURL(conn) && strings.Contains(c.Database, "@"):
		wrong = "its host, or database, has an @; in a URL's password it is written %40"
	case strings.ContainsAny(c.User, ":/"):
		wrong = "its user has a : or /, as if the password were part of it"
	default:
		return fmt.Sprintf("PostgreSQL, %s at %s:%d", c.Database, c.Host, c.Port), nil
	}
	return "", misused("--pg: the connection string can't be right: %s", wrong)
}

func isURL(conn string) bool {
	return strings.HasPrefix(conn, "postgres://") || strings.HasPrefix(conn, "postgresql://")
}

// reason says what is wrong with a connection string, if there can't be a password in it.
func reason(conn string, err error) string {
	isNoPair := func(word string) bool { return !strings.Contains(word, "=") }
	if strings.ContainsAny(conn, "@%:'\\") || strings.Contains(strings.ToLower(conn), "pass") ||
		slices.ContainsFunc(strings.Fields(conn), isNoPair) {
		return "; it is a URL, such as postgres://db/app, or KEY=VALUE pairs, such as \"host=db dbname=app\" (it is not shown here, as it may have a password in it)"
	}
	text := err.Error()
	if _, why, ok := strings.Cut(text, "`: "); ok {
		text = why
	}
	return ": " + visible(text)
}
