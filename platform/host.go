package platform

import (
	"os"
	"sync"
)

// A Host identifies the running kernel. What can't be had is the zero value.
type Host struct {
	// Name is the host's name: for people, and a weak sign of identity. A
	// container has its own.
	Name string
	// BootID differs between any two boots of any two machines.
	BootID string
}

// ThisHost returns the identity of the host. It is found once.
func ThisHost() Host { return thisHost() }

var thisHost = onceComplete(func() (Host, bool) {
	name, err := os.Hostname()
	id, found := bootID()
	return Host{Name: name, BootID: id}, err == nil && found
})

// onceComplete returns find's answer, and calls it again only until it is complete:
// what could not be read while, say, the process had no descriptors left must not
// be unknown for good.
func onceComplete[T any](find func() (answer T, complete bool)) func() T {
	var (
		mu     sync.Mutex
		known  bool
		answer T
	)
	return func() T {
		mu.Lock()
		defer mu.Unlock()
		if !known {
			answer, known = find()
		}
		return answer
	}
}
