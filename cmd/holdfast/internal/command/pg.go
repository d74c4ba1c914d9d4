package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pgLocks is a pg.Locker as the command has it.
type pgLocks struct {
	*pg.Locker
	name string
}

func openPG(ctx context.Context, conn, label string) (Database, error) {
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
	return &pgLocks{l, name}, nil
}

func (d *pgLocks) Name() string { return d.name }

func (d *pgLocks) Holders(ctx context.Context, key lock.Key) (all []Session, err error) {
	found, err := d.Locker.Holders(ctx, key)
	for _, s := range found {
		all = append(all, Session(s))
	}
	return all, err
}

func (d *pgLocks) EndSession(ctx context.Context, s Session) (there bool, err error) {
	err = d.Locker.EndSession(ctx, pg.Session(s))
	if errors.Is(err, pg.ErrGone) {
		return false, nil
	}
	return true, err
}

// nameOf names a database for people. It refuses a connection string that can't be read, and
// one where a part of a password was taken for something else: the server and the system
// would quote that.
func nameOf(conn string) (string, error) {
	config, err := pgxpool.ParseConfig(conn)
	if err != nil {
		return "", UsageError("the connection string can't be read" + reason(conn, err))
	}
	c := config.ConnConfig
	parts := []string{c.Host, c.Database, c.User}
	for name, value := range c.RuntimeParams {
		parts = append(parts, name, value)
	}
	text := strings.Join(parts, " ")
	switch {
	case strings.Contains(text, "password"):
		return "", UsageError("the connection string can't be right: its password is part of something else; it is a URL, or KEY=VALUE pairs")
	case strings.Contains(c.Host, "@"), isURL(conn) && strings.Contains(c.Database, "@"):
		return "", UsageError("the connection string can't be right: its host, or database, has an @; in a URL's password it is written %40")
	case strings.ContainsAny(c.User, ":/"):
		return "", UsageError("the connection string can't be right: its user has a : or /, as if the password were part of it")
	}
	return fmt.Sprintf("PostgreSQL, %s at %s:%d", c.Database, c.Host, c.Port), nil
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
	return ": " + text
}
