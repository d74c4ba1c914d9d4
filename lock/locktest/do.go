package locktest

import (
	"context"
	"errors"
	"runtime"

	"github.com/holdfast-go/holdfast/lock"
)

var doTests = []test{
	{"Returns", doReturns},
	{"Error", doError},
	{"Panic", doPanics},
	{"Goexit", doGoexit},
	{"EndedContext", doEnded},
}

// do is lock.Do, or lock.TryDo of a free lock.
type do func(ctx context.Context, l lock.Locker, key lock.Key, fn func(context.Context, lock.Hold) error) error

var bothDo = []do{lock.Do, func(ctx context.Context, l lock.Locker, key lock.Key, fn func(context.Context, lock.Hold) error) error {
	acquired, err := lock.TryDo(ctx, l, key, fn)
	if !acquired && err == nil {
		return errors.New("TryDo found a free lock to be another's")
	}
	return err
}}

func doReturns(s *subtest) {
	for _, do := range bothDo {
		key := s.key()
		called := 0
		err := do(s.ctx, s.locker, key, func(ctx context.Context, _ lock.Hold) error {
			called++
			s.wantHeld(key)
			return ctx.Err()
		})
		if called != 1 || err != nil {
			s.Errorf("called %d times, %v", called, err)
		}
		s.wantFree(key)
	}
}

func doError(s *subtest) {
	mine := errors.New("error of the function")
	for _, do := range bothDo {
		key := s.key()
		if err := do(s.ctx, s.locker, key, func(context.Context, lock.Hold) error { return mine }); err != mine {
			s.Errorf("error is %v, want the very one of the function", err)
		}
		s.wantFree(key)
	}
}

func doPanics(s *subtest) {
	type mine struct{}
	for _, do := range bothDo {
		key := s.key()
		func() {
			defer func() {
				if r := recover(); r != (mine{}) {
					s.Errorf("recovered %v, want the very panic of the function", r)
				}
			}()
			_ = do(s.ctx, s.locker, key, func(context.Context, lock.Hold) error { panic(mine{}) })
			s.Error("the panic is gone")
		}()
		s.wantFree(key)
	}
}

// doGoexit: t.FailNow in a function under a lock ends its goroutine, and releases.
func doGoexit(s *subtest) {
	for _, do := range bothDo {
		key := s.key()
		over := make(chan struct{})
		go func() {
			defer close(over)
			err := do(s.ctx, s.locker, key, func(context.Context, lock.Hold) error {
				runtime.Goexit()
				return nil
			})
			s.Errorf("the goroutine goes on (%v)", err)
		}()
		<-over
		s.wantFree(key)
	}
}

func doEnded(s *subtest) {
	for _, do := range bothDo {
		key := s.key()
		for cause, ctx := range s.ended() {
			err := do(ctx, s.locker, key, func(context.Context, lock.Hold) error {
				s.Error("called under a context that was done before")
				return nil
			})
			s.wantIs(err, cause)
		}
		s.wantFree(key)
	}
}
