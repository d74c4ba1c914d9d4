package etcd

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/holdfast-go/holdfast/lock"
)

// What lies below Options.Prefix:
//
//	locks/SPACE/NAME/w/ID   has, or wants, the lock alone
//	locks/SPACE/NAME/r/ID   has, or wants, it shared
//	lockers/ID              a Locker that is open; see lease.epoch
//	fences/SPACE/NAME       the last fence of a lock, in decimal; see fence.go
//
// SPACE and NAME are escaped as in the path of a URL, so that neither has a slash. IDs begin
// with the lease's. But for the fences, every value is a claim, evidence.Claim as JSON, and
// every key is under the lease of its Locker.
const (
	locksDir   = "locks/"
	lockersDir = "lockers/"
	fencesDir  = "fences/"
)

// mode is exclusive, or shared.
type mode struct {
	name string // evidence.Claim.Mode
	dir  string
	// behind is the folder of the keys that it waits for: for a writer, all; for a reader, the
	// writers'.
	behind string
}

var (
	exclusive = mode{"", "w/", ""}
	shared    = mode{"shared", "r/", "w/"}
)

// maxName bounds a space and a name, in bytes.
const maxName = 1024

// folder checks a key, and returns what all keys of its lock begin with.
func (l *Locker) folder(key lock.Key) (string, error) {
	for _, part := range []string{key.Space, key.Name} {
		if part == "" || len(part) > maxName {
			return "", fmt.Errorf("etcd: %w: lock key %q: neither part may be empty, or longer than %d bytes", lock.ErrInvalidName, key, maxName)
		}
	}
	return l.options.Prefix + locksDir + url.PathEscape(key.Space) + "/" + url.PathEscape(key.Name) + "/", nil
}

// parse reads a key of etcd's. ok is false if that is none of ours.
func (l *Locker) parse(name string) (key lock.Key, m mode, ok bool) {
	parts := strings.Split(strings.TrimPrefix(name, l.options.Prefix+locksDir), "/")
	if len(parts) != 4 {
		return key, m, false
	}
	space, err := url.PathUnescape(parts[0])
	name, err2 := url.PathUnescape(parts[1])
	switch parts[2] + "/" {
	case exclusive.dir:
		m = exclusive
	case shared.dir:
		m = shared
	default:
		return key, m, false
	}
	return lock.Key{Space: space, Name: name}, m, err == nil && err2 == nil
}
