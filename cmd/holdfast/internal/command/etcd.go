package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/etcd"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdServer is the locks of an etcd cluster.
type etcdServer struct {
	*etcd.Locker
	client *clientv3.Client
}

// etcdPrefix is what all keys begin with, and what package etcd has by default.
const etcdPrefix = "holdfast/"

func openEtcd(ctx context.Context, endpoints, label string) (_ server, err error) {
	endpoints = cmp.Or(endpoints, os.Getenv("ETCDCTL_ENDPOINTS"))
	if endpoints == "" {
		return nil, misused("--etcd wants HOST:PORT, as ETCDCTL_ENDPOINTS is not set")
	}
	config := clientv3.Config{Endpoints: strings.Split(endpoints, ","), DialTimeout: answerPatience, DialKeepAliveTime: 5 * time.Second, Logger: zap.NewNop()}
	config.Username, config.Password, _ = strings.Cut(os.Getenv("ETCDCTL_USER"), ":")
	tls := transport.TLSInfo{TrustedCAFile: os.Getenv("ETCDCTL_CACERT"), CertFile: os.Getenv("ETCDCTL_CERT"), KeyFile: os.Getenv("ETCDCTL_KEY")}
	if tls.TrustedCAFile != "" || !tls.Empty() {
		if config.TLS, err = tls.ClientConfig(); err != nil {
			return nil, err
		}
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, err
	}
	l, err := etcd.Open(ctx, etcd.Options{Client: client, Prefix: etcdPrefix, Cmd: label})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &etcdServer{l, client}, nil
}

func (e *etcdServer) Close() {
	e.Locker.Close()
	_ = e.client.Close() // nothing is asked of it any more
}

func (e *etcdServer) Name() string { return "etcd, " + strings.Join(e.client.Endpoints(), ",") }

// Holders: a lock is a queue of keys, each under the lease of its Locker. Ahead of a reader may
// be readers, and ahead of a writer nobody.
func (e *etcdServer) Holders(ctx context.Context, key lock.Key) (all []session, err error) {
	if _, err := e.Inspect(ctx, key); err != nil {
		return nil, err
	}
	queue := etcdPrefix + "locks/" + url.PathEscape(key.Space) + "/" + url.PathEscape(key.Name) + "/"
	found, err := e.client.Get(ctx, queue, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, err
	}
	for _, kv := range found.Kvs {
		if reads := strings.HasPrefix(string(kv.Key), queue+"r/"); !reads && len(all) > 0 {
			break // it waits, as do all behind it
		}
		s := session{nonce: strconv.FormatInt(kv.Lease, 16)}
		var claim evidence.Claim
		if json.Unmarshal(kv.Value, &claim) == nil {
			s.PID, s.Cmd, s.Host, s.Started = claim.PID, claim.Cmd, claim.Hostname, claim.CreatedAt
		}
		lease, err := e.client.TimeToLive(ctx, clientv3.LeaseID(kv.Lease), clientv3.WithAttachedKeys())
		if err != nil {
			return nil, err
		}
		for _, k := range lease.Keys {
			if strings.HasPrefix(string(k), etcdPrefix+"locks/") {
				s.Locks++
			}
		}
		all = append(all, s)
		if !strings.HasPrefix(string(kv.Key), queue+"r/") {
			break
		}
	}
	return all, nil
}

func (e *etcdServer) End(ctx context.Context, s session) (there bool, err error) {
	lease, err := strconv.ParseInt(s.nonce, 16, 64)
	if err != nil {
		return false, err
	}
	if _, err = e.client.Revoke(ctx, clientv3.LeaseID(lease)); errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return false, nil
	}
	return true, err
}

func (e *etcdServer) LastFence(ctx context.Context, key lock.Key) (int64, error) {
	found, err := e.client.Get(ctx, etcdPrefix+"fences/"+url.PathEscape(key.Space)+"/"+url.PathEscape(key.Name))
	if err != nil || len(found.Kvs) == 0 {
		return 0, err
	}
	fence, err := strconv.ParseInt(string(found.Kvs[0].Value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the fence of %s is no number", key)
	}
	return fence, nil
}

var etcdWords = words{
	flag: "--etcd", process: "pid", from: "on", advice: etcdAdvice, right: "its lease can't be read",
	nobody:    "not known: its claim can't be read",
	lost:      "its lease has ended, or the cluster can't be heard any more",
	lostWhy:   "the cluster or the network went away, or someone revoked the lease",
	lostLater: "the cluster or the network went away while the command ran, or someone revoked the lease",
	leftover:  "its lease ends now, and the lock with it",
}

func (e *etcdServer) words() *words { return &etcdWords }

func etcdAdvice(s lock.Status) []string {
	if s.State == evidence.Free {
		return nil
	}
	return endAdvice(s, "--etcd")
}
