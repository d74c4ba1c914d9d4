package etcd_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/etcd"
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

// engine has a lease short enough to wait for the end of those who are killed, and long
// enough to be kept on a machine that is busy.
func engine(address string, admin *clientv3.Client) locktest.Engine {
	return locktest.Engine{
		Address: func(*testing.T) string { return address },
		OpenAt:  openAt,
		Lose: func(t *testing.T, _ string, _ lock.Key, held lock.Hold) {
			answer, err := admin.Delete(limited(t), held.(*etcd.Hold).Own())
			check(t, err)
			if answer.Deleted != 1 {
				t.Fatal("there is no key of the hold")
			}
		},
		NoticesLoss:  true,
		LosesStopped: true,
		Patience:     3 * time.Minute,
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	locktest.Run(t, engine("3s "+joined(server), server.client(t)))
}

// TestConformanceAsUser is of three members that are reached by TLS, by a user whose tokens
// expire all the time. It takes minutes, and is run if HOLDFAST_ETCD_WHOLE is set; TestToken
// is a part of it that always runs.
func TestConformanceAsUser(t *testing.T) {
	if os.Getenv("HOLDFAST_ETCD_WHOLE") == "" {
		return
	}
	t.Parallel()
	c := guarded(t)
	locktest.Run(t, engine(c.address("10s"), c.root(t)))
}
