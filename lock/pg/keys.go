package pg

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/jackc/pgx/v5"
)

// number is a lock as the server knows it.
type number struct {
	numeric   bool
	space, id int32 // numeric
	hash      int64 // otherwise
}

// args are the arguments of pg_advisory_lock and its like.
func (n number) args() []any {
	if n.numeric {
		return []any{n.space, n.id}
	}
	return []any{n.hash}
}

// maxName bounds a space and a name, in bytes.
const maxName = 1024

// number checks a key, and returns its lock.
func (l *Locker) number(key lock.Key) (number, error) {
	for _, part := range []string{key.Space, key.Name} {
		if part == "" || len(part) > maxName || !utf8.ValidString(part) || strings.ContainsRune(part, 0) {
			return number{}, fmt.Errorf("pg: %w: lock key %q: neither part may be empty, longer than %d bytes, or not text",
				lock.ErrInvalidName, key, maxName)
		}
	}
	l.mu.Lock()
	space, numeric := l.spaces[key.Space]
	l.mu.Unlock()
	if !numeric {
		return number{hash: l.hash(key)}, nil
	}
	id, err := strconv.ParseInt(key.Name, 10, 32)
	if err != nil || strconv.FormatInt(id, 10) != key.Name {
		return number{}, fmt.Errorf("pg: %w: lock key %q: the names in this space are numbers of 32 bits", lock.ErrInvalidName, key)
	}
	return number{numeric: true, space: space, id: int32(id)}, nil
}

// hash is 64 bits of SHA-256, so that nobody finds names that collide by chance, and
// only with great effort on purpose.
func hash(key lock.Key) int64 {
	sum := sha256.Sum256([]byte(key.Space + "\x00" + key.Name))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// Register makes a space one whose names are numbers of 32 bits, in decimal, and
// gives it a number among the spaces of this database, which stays. All processes
// register the same, before they use it. The error is ErrSpaceClash when the database
// knows it otherwise, or has locks with other names in it; then nothing has changed.
func (l *Locker) Register(ctx context.Context, space string, id int32) error {
	if _, err := l.number(lock.Key{Space: space, Name: "0"}); err != nil {
		return err
	}
	var named bool
	err := l.pool.QueryRow(ctx, `WITH new AS (INSERT INTO holdfast_spaces (id, name) SELECT $1, $2
			WHERE NOT EXISTS (SELECT FROM holdfast_names WHERE space = $2) ON CONFLICT DO NOTHING)
		SELECT EXISTS (SELECT FROM holdfast_names WHERE space = $2)`, id, space).Scan(&named)
	if err != nil {
		return fmt.Errorf("pg: register %q: %w", space, err)
	}
	if named {
		return fmt.Errorf("pg: register %q: %w: it has been used with names, see holdfast_names", space, ErrSpaceClash)
	}
	rows, err := l.pool.Query(ctx, `SELECT id, name FROM holdfast_spaces WHERE id = $1 OR name = $2`, id, space)
	if err != nil {
		return fmt.Errorf("pg: register %q: %w", space, err)
	}
	var other int32
	var name string
	var clash error
	_, err = pgx.ForEachRow(rows, []any{&other, &name}, func() error {
		if other != id || name != space {
			clash = errors.Join(clash, fmt.Errorf("pg: register %q as %d: %q is %d: %w", space, id, name, other, ErrSpaceClash))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pg: register %q: %w", space, err)
	}
	if clash != nil {
		return clash
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spaces[space] = id
	return nil
}
