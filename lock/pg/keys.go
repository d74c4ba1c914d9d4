package pg

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/lock"
)

// number is a lock as the server knows it.
type number struct {
	numeric   bool
	space, id int32 // numeric
	hash      int64 // otherwise
}

// String gives the name that the lock has in Numbers.
func (n number) String() string {
	if n.numeric {
		return fmt.Sprint(n.space, ",", n.id)
	}
	return strconv.FormatInt(n.hash, 10)
}

// args are the arguments of pg_advisory_lock and its like.
func (n number) args() []any {
	if n.numeric {
		return []any{n.space, n.id}
	}
	return []any{n.hash}
}

// inLocks are the classid, objid and objsubid that the lock has in pg_locks.
func (n number) inLocks() []any {
	if n.numeric {
		return []any{int64(uint32(n.space)), int64(uint32(n.id)), 2}
	}
	return []any{int64(uint32(uint64(n.hash) >> 32)), int64(uint32(n.hash)), 1}
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
	if key.Space == Numbers {
		return rawNumber(key)
	}
	space, numeric := l.names.registeredAs(key.Space)
	if !numeric {
		return number{hash: l.hash(key)}, nil
	}
	id, err := strconv.ParseInt(key.Name, 10, 32)
	if err != nil || strconv.FormatInt(id, 10) != key.Name {
		return number{}, fmt.Errorf("pg: %w: lock key %q: the names in this space are numbers of 32 bits", lock.ErrInvalidName, key)
	}
	return number{numeric: true, space: space, id: int32(id)}, nil
}

// Numbers is the space of programs that lock by numbers: Name is a number of 64 bits, in
// decimal, or two of 32 bits with a comma between. These locks have no names, so two uses of
// one number are not found out.
const Numbers = "#"

func rawNumber(key lock.Key) (number, error) {
	first, second, two := strings.Cut(key.Name, ",")
	if !two {
		hash, err := strconv.ParseInt(key.Name, 10, 64)
		if err == nil && strconv.FormatInt(hash, 10) == key.Name {
			return number{hash: hash}, nil
		}
	} else {
		space, err := strconv.ParseInt(first, 10, 32)
		id, err2 := strconv.ParseInt(second, 10, 32)
		if err == nil && err2 == nil && fmt.Sprint(space, ",", id) == key.Name {
			return number{numeric: true, space: int32(space), id: int32(id)}, nil
		}
	}
	return number{}, fmt.Errorf("pg: %w: lock key %q: want a number of 64 bits, or two of 32 bits, as in %s/1,-2", lock.ErrInvalidName, key, Numbers)
}

// hash is 64 bits of SHA-256: names don't collide by chance, and only with great effort on
// purpose.
func hash(key lock.Key) int64 {
	sum := sha256.Sum256([]byte(key.Space + "\x00" + key.Name))
	return int64(binary.BigEndian.Uint64(sum[:]))
}
