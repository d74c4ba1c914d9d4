package etcd_test

import (
	"context"
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

// userPrefix marks the address of locks that are had as a user.
const userPrefix = "user "

// openAt opens the locks at "LEASE ENDPOINT,...".
func openAt(ctx context.Context, address string) (lock.Locker, error) {
	address, user := strings.CutPrefix(address, userPrefix)
	span, endpoints, _ := strings.Cut(address, " ")
	lease, err := time.ParseDuration(span)
	if err != nil {
		return nil, err
	}
	c := clientv3.Config{Endpoints: strings.Split(endpoints, ","), Logger: zap.NewNop()}
	if user {
		c.Username, c.Password = "app", "secret"
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

const suiteLease = "3s"

func TestConformance(t *testing.T) {
	locktest.Run(t, engine(suiteLease+" "+strings.Join(server.endpoints(), ","), server.client(t)))
}

// TestConformanceAsUser is of three members, who let in users.
func TestConformanceAsUser(t *testing.T) {
	c := newCluster(t, 3)
	admin := c.withUsers(t)
	locktest.Run(t, engine(userPrefix+suiteLease+" "+joined(c), admin))
}
