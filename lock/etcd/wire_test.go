package etcd_test

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A wire is between a client and its cluster, and does to requests what a test wants.
type wire struct {
	mu     sync.Mutex
	unary  func(ctx context.Context, method string, r request) error
	sent   func(method string, m any) // before a message of a stream is sent
	came   func(method string, m any) // after one came, before the client sees it
	client *clientv3.Client
}

func newWire(t testing.TB, c *cluster) *wire {
	return newWireTo(t, clientv3.Config{Endpoints: c.endpoints(), Logger: zap.NewNop()})
}

func newWireTo(t testing.TB, config clientv3.Config) *wire {
	w := &wire{}
	config.DialOptions = []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
			r := request{
				func(ctx context.Context) error { return invoke(ctx, method, req, reply, cc, o...) },
				func() error {
					nobodys := reflect.New(reflect.TypeOf(reply).Elem()).Interface()
					return invoke(context.WithoutCancel(ctx), method, req, nobodys, cc)
				},
			}
			w.mu.Lock()
			unary := w.unary
			w.mu.Unlock()
			if unary == nil {
				return r.send(ctx)
			}
			return unary(ctx, method[strings.LastIndexByte(method, '/')+1:], r)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, s grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			inner, err := s(ctx, d, cc, method, o...)
			return &tapped{inner, w, method[strings.LastIndexByte(method, '/')+1:]}, err
		})}
	client := must(clientv3.New(config))(t)
	t.Cleanup(func() { client.Close() })
	w.client = client
	return w
}

// request is one that is to be sent: now, or when nobody wants the answer any more.
type request struct {
	send func(context.Context) error
	late func() error
}

// set changes what is done from now on.
func (w *wire) set(change func(*wire)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

type tapped struct {
	grpc.ClientStream
	wire   *wire
	method string
}

func (s *tapped) SendMsg(m any) error {
	s.wire.mu.Lock()
	sent := s.wire.sent
	s.wire.mu.Unlock()
	if sent != nil {
		sent(s.method, m)
	}
	return s.ClientStream.SendMsg(m)
}

func (s *tapped) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.wire.mu.Lock()
	came := s.wire.came
	s.wire.mu.Unlock()
	if came != nil && err == nil {
		came(s.method, m)
	}
	return err
}

var errLostOnTheWire = status.Error(codes.Unavailable, "lost on the wire")

// loseAnswer has the next request of a kind carried out, and its answer lost.
func (w *wire) loseAnswer(kind string) {
	var once sync.Once
	w.set(func(w *wire) {
		w.unary = func(ctx context.Context, method string, r request) error {
			err := error(nil)
			lost := false
			if method == kind {
				once.Do(func() { lost, err = true, r.send(ctx) })
			}
			if lost {
				if err != nil {
					return err
				}
				return errLostOnTheWire
			}
			return r.send(ctx)
		}
	})
}

// delay keeps the next request of a kind on its way. Who asked is told that the connection
// is lost if fails, or waits. late closes when there is one; arrive lets it through, and
// returns how it ended.
func (w *wire) delay(kind string, fails bool) (late <-chan struct{}, arrive func() error) {
	var once sync.Once
	begun, let, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	w.set(func(w *wire) {
		w.unary = func(ctx context.Context, method string, r request) error {
			mine := false
			if method == kind {
				once.Do(func() { mine = true })
			}
			if !mine {
				return r.send(ctx)
			}
			close(begun)
			if fails {
				go func() {
					<-let
					over <- r.late()
				}()
				return errLostOnTheWire
			}
			select {
			case <-let:
				err := r.send(ctx)
				over <- err
				return err
			case <-ctx.Done():
				go func() {
					<-let
					over <- r.late()
				}()
				return ctx.Err()
			}
		}
	})
	return begun, func() error {
		close(let)
		return <-over
	}
}
