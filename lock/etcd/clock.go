package etcd

import "time"

// instant is when something happened, for spans that go on while the machine sleeps: the
// server's clock does.
type instant struct {
	boot    time.Duration // since the machine started, sleep included; 0 where nobody tells
	running time.Duration // since this program started, without sleep
	wall    time.Duration // since 1970, by a clock that can be set
}

var programStart = time.Now()

func readClock() instant {
	now := time.Now()
	return instant{sinceBoot(), now.Sub(programStart), time.Duration(now.UnixNano())}
}

// since is how much time has passed. Where the system does not tell, the monotonic or the wall
// clock decides, whichever says more: a clock that is set forward then costs a lease, and
// nothing makes a lease longer.
func (i instant) since(earlier instant) time.Duration {
	if i.boot != 0 && earlier.boot != 0 {
		return i.boot - earlier.boot
	}
	return max(i.running-earlier.running, i.wall-earlier.wall)
}
