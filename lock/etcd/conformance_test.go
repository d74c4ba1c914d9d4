package etcd_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/etcd"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/locktest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// own is a Locker with a client of its own, which it closes.
type own struct {
	*etcd.Locker
	client *clientv3.Client
}

func (o own) Close() error {
	o.Locker.Close()
	return o.client.Close()
}

// openAt opens the locks at "LEASE ENDPOINT,...", or, as a user and by TLS, at
// "LEASE ENDPOINT,... CERTIFICATE".
func openAt(ctx context.Context, address string) (lock.Locker, error) {
	parts := strings.Fields(address)
	lease, err := time.ParseDuration(parts[0])
	if err != nil {
		return nil, err
	}
	c := clientv3.Config{Endpoints: strings.Split(parts[1], ","), Logger: zap.NewNop()}
	if len(parts) > 2 {
		c.Username, c.Password = "app", "secret"
		if c.TLS, err = trusting(parts[2]); err != nil {
			return nil, err
		}
	}
	client, err := clientv3.New(c)
	if err != nil {
		return nil, err
	}
	l, err := etcd.Open(ctx, etcd.Options{Client: client, Lease: lease})
	if err != nil {
		client.Close()
		return nil, err
	}
	return own{l, client}, nil
}

// engine is of a lease that is kept on the busiest machine. Of those who are killed it is
// revoked, as the cluster does when it has run out: TestKilled waits for that, and so does
// the suite if it is to kill many.
func engine(address string, admin *clientv3.Client) locktest.Engine {
	lease := "20s "
	if os.Getenv("HOLDFAST_LOCKTEST_KILLS") != "" {
		lease = "3s "
	}
	return locktest.Engine{
		Address: func(*testing.T) string { return lease + address },
		OpenAt:  openAt,
		Lose: func(t *testing.T, _ string, _ lock.Key, held lock.Hold) {
			answer := must(admin.Delete(limited(t), held.(*etcd.Hold).Own()))(t)
			if answer.Deleted != 1 {
				t.Fatal("there is no key of the hold")
			}
		},
		NoticesLoss:  true,
		LosesStopped: true,
		Buried:       func(t *testing.T, _ string, pid int) { revokeOf(t, admin, pid) },
		Patience:     3 * time.Minute,
	}
}

// revokeOf revokes the lease of a process.
func revokeOf(t *testing.T, admin *clientv3.Client, pid int) {
	answer := must(admin.Get(limited(t), lockers, clientv3.WithPrefix()))(t)
	for _, kv := range answer.Kvs {
		var owner evidence.Claim
		if json.Unmarshal(kv.Value, &owner) == nil && owner.PID == pid {
			_, _ = admin.Revoke(limited(t), clientv3.LeaseID(kv.Lease)) // if it is still there
		}
	}
}

const lockers = "holdfast/lockers/"

func TestConformance(t *testing.T) {
	t.Parallel()
	locktest.Run(t, engine(joined(server), server.client(t)))
}

// TestConformanceAsUser is of three members that are reached by TLS, by a user whose tokens
// expire all the time. It is run if HOLDFAST_ETCD_WHOLE is set; TestToken is a part of it that
// always runs.
func TestConformanceAsUser(t *testing.T) {
	if os.Getenv("HOLDFAST_ETCD_WHOLE") == "" {
		return
	}
	t.Parallel()
	c := guarded(t)
	locktest.Run(t, engine(c.address(), c.root(t)))
}
