package etcd_test

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A key is written under a lock, and only by who has it still. It needs a cluster, so it is
// not run as a test.
func Example() {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"https://a:2379", "https://b:2379", "https://c:2379"}, DialKeepAliveTime: 5 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	locks, err := etcd.Open(ctx, etcd.Options{Client: client, Cmd: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = lock.Do(ctx, locks, lock.Key{Space: "account", Name: "42"}, func(ctx context.Context, held lock.Hold) error {
		// ctx ends, with lock.ErrLost, if the cluster or the network fails us.
		done, err := client.Txn(ctx).If(held.(*etcd.Hold).IsOwner()).Then(clientv3.OpPut("account/42", "100")).Commit()
		if err == nil && !done.Succeeded {
			err = errors.New("a later holder may have written")
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}
