//go:build linux

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/holdfast-go/holdfast/lock/pg/pgtest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	functionsFloor = "floor: the bare functions"
	oursPG         = "holdfast lock/pg"
)

var pgKey = lock.Key{Space: "bench", Name: "1"}

// postgres measures locks in a database against pg_advisory_lock and
// pg_advisory_unlock themselves.
func (b *bench) postgres() {
	server, err := pgtest.Start()
	if err != nil {
		b.r.Skipped = append(b.r.Skipped, "PostgreSQL: "+err.Error())
		return
	}
	defer server.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), pick(b, 90*time.Second, 30*time.Second))
	defer cancel()
	for _, measure := range []func(context.Context, string) error{b.pgAlone, b.pgHandoff, b.pgMany} {
		if err := measure(ctx, server.Conn()); err != nil {
			b.r.Skipped = append(b.r.Skipped, "PostgreSQL: "+err.Error())
		}
	}
}

func (b *bench) pgTurns(setting string, rounds int, floor, ours func() (float64, error)) {
	b.r.Postgres = append(b.r.Postgres, takeTurns(setting, pick(b, rounds, 2), 8*time.Second, functionsFloor,
		[]contestant{{functionsFloor, floor}, {oursPG, ours}})...)
}

// bareConn has the bare functions on a connection of its own.
type bareConn struct{ *pgx.Conn }

func connect(ctx context.Context, conn string) (bareConn, error) {
	c, err := pgx.Connect(ctx, conn)
	return bareConn{c}, err
}

func (c bareConn) lock(ctx context.Context) error {
	_, err := c.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(1))
	return err
}

func (c bareConn) unlock(ctx context.Context) error {
	_, err := c.Exec(ctx, "SELECT pg_advisory_unlock($1)", int64(1))
	return err
}

func (b *bench) pgAlone(ctx context.Context, conn string) error {
	bare, err := connect(ctx, conn)
	if err != nil {
		return err
	}
	defer bare.Close(ctx)
	locks, err := pg.Open(ctx, pg.Options{Conn: conn})
	if err != nil {
		return err
	}
	defer locks.Close()
	b.pgTurns("acquire and release", 4000, // a server that has just been started is restless
		timed(func() error {
			return inTurn(func() error { return bare.lock(ctx) }, func() error { return bare.unlock(ctx) })
		}),
		timed(func() error {
			held, err := locks.Acquire(ctx, pgKey)
			if err != nil {
				return err
			}
			return held.Release()
		}))
	return nil
}

func (b *bench) pgHandoff(ctx context.Context, conn string) error {
	var bare [2]bareConn
	var ours [2]*pg.Locker
	for i := range bare {
		var err error
		if bare[i], err = connect(ctx, conn); err != nil {
			return err
		}
		defer bare[i].Close(ctx)
		if ours[i], err = pg.Open(ctx, pg.Options{Conn: conn}); err != nil {
			return err
		}
		defer ours[i].Close()
	}
	b.pgTurns("hand-off", 150,
		func() (float64, error) {
			if err := bare[0].lock(ctx); err != nil {
				return 0, err
			}
			return passOn(func() error { return bare[0].unlock(ctx) },
				func() (func() error, error) {
					return func() error { return bare[1].unlock(ctx) }, bare[1].lock(ctx)
				})
		},
		func() (float64, error) {
			held, err := ours[0].Acquire(ctx, pgKey)
			if err != nil {
				return 0, err
			}
			return passOn(held.Release, func() (func() error, error) {
				next, err := ours[1].Acquire(ctx, pgKey)
				if err != nil {
					return nil, err
				}
				return next.Release, nil
			})
		})
	return nil
}

// passOn measures from just before a release until take, which waits for it, has it.
func passOn(release func() error, take func() (func() error, error)) (float64, error) {
	type result struct {
		had  int64
		done func() error
		err  error
	}
	next := make(chan result, 1)
	go func() {
		done, err := take()
		next <- result{clock(), done, err}
	}()
	time.Sleep(5 * time.Millisecond)
	begin := clock()
	if err := release(); err != nil {
		return 0, err
	}
	got := <-next
	if got.err != nil {
		return 0, got.err
	}
	return float64(got.had - begin), got.done()
}

// pgMany has 100 goroutines, each with a lock of its own, share ten connections.
func (b *bench) pgMany(ctx context.Context, conn string) error {
	const goroutines, each = 100, 5
	conn += " pool_max_conns=10"
	pool, err := pgxpool.New(ctx, conn)
	if err != nil {
		return err
	}
	defer pool.Close()
	locks, err := pg.Open(ctx, pg.Options{Conn: conn})
	if err != nil {
		return err
	}
	defer locks.Close()
	all := func(one func(i int) error) func() (float64, error) {
		return timed(func() error {
			var group sync.WaitGroup
			errs := make(chan error, goroutines*each)
			for i := range goroutines {
				group.Go(func() {
					for range each {
						errs <- one(i)
					}
				})
			}
			group.Wait()
			close(errs)
			for err := range errs {
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	b.pgTurns("100 goroutines, 10 connections, 5 each", 20,
		all(func(i int) error {
			c, err := pool.Acquire(ctx)
			if err != nil {
				return err
			}
			defer c.Release()
			if _, err := c.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(i)); err != nil {
				return err
			}
			_, err = c.Exec(ctx, "SELECT pg_advisory_unlock($1)", int64(i))
			return err
		}),
		all(func(i int) error {
			held, err := locks.Acquire(ctx, lock.Key{Space: "bench", Name: fmt.Sprint(i)})
			if err != nil {
				return err
			}
			return held.Release()
		}))
	return nil
}
