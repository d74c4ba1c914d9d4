package monitor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/monitor"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

const api = "/api/advisory-locks"

// lister is an engine that is a function.
type lister func(ctx context.Context, yield func(lock.Status, error) bool)

func (l lister) List(ctx context.Context) iter.Seq2[lock.Status, error] {
	return func(yield func(lock.Status, error) bool) { l(ctx, yield) }
}

var (
	check = testkit.Check
	that  = testkit.That
)

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testkit.Equal(t, got, want, what...)
}

func must[T any](got T, err error) func(testing.TB) T { return testkit.Must(got, err) }

// of lists these locks.
func of(locks ...lock.Status) lister {
	return func(_ context.Context, yield func(lock.Status, error) bool) {
		for _, s := range locks {
			if !yield(s, nil) {
				return
			}
		}
	}
}

func held(name string, pid int) lock.Status {
	return lock.Status{Key: lock.Key{Space: "s", Name: name}, State: evidence.Held,
		Info: &evidence.Claim{PID: pid, CreatedAt: time.Now()}}
}

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func report(t *testing.T, h http.Handler) (r monitor.Report) {
	t.Helper()
	w := ask(h, "GET", api)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	check(t, json.Unmarshal(w.Body.Bytes(), &r), "in", w.Body)
	if r.Total != len(r.Locks) {
		t.Errorf("the total is %d of %d", r.Total, len(r.Locks))
	}
	return r
}

func hostname(t *testing.T) string {
	t.Helper()
	return must(os.Hostname())(t)
}

func errorOf(t *testing.T, r monitor.Report, name string) string {
	t.Helper()
	for _, e := range r.Engines {
		if e.Name == name && e.Error != nil {
			return *e.Error
		} else if e.Name == name {
			return ""
		}
	}
	t.Fatalf("the engine %s is not in %+v", name, r.Engines)
	return ""
}

// TestReport: every field, in a bubble where the time stands still.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now().UTC() // midnight 2000-01-01
		next := func(s lock.Status) []string {
			nonce := ""
			if s.Info != nil {
				nonce = s.Info.Nonce
			}
			return []string{string(s.State), s.Path + " " + nonce}
		}
		h := monitor.New(
			monitor.Engine{Name: "files", Next: next, Lister: of(
				lock.Status{Key: lock.Key{Space: "jobs", Name: "a.lock"}, Path: "/l/jobs/a.lock", State: evidence.Held, Evidence: evidence.KernelLockHeld,
					Info:    &evidence.Claim{PID: 12, CreatedAt: began, Cmd: "deploy", Hostname: "vm", Nonce: "N"},
					Waiters: []lock.Process{{PID: 13}}},
				lock.Status{Key: lock.Key{Space: ".", Name: "b.lock"}, State: evidence.Unknown},
				lock.Status{Key: lock.Key{Space: ".", Name: "c.lock"}, State: evidence.Dead,
					Info: &evidence.Claim{PID: 14, CreatedAt: began.Add(time.Hour), Mode: "shared"}},
				lock.Status{Key: lock.Key{Space: ".", Name: "d.lock"}, State: evidence.Free},
			)},
			monitor.Engine{Name: "database", Lister: of(
				lock.Status{Key: lock.Key{Space: "agent", Name: "7"}, Path: "agent/7", State: evidence.Held,
					Processes: []lock.Process{{PID: 98, Activity: "idle", Info: &evidence.Claim{PID: 98, CreatedAt: began}}},
					Waiters: []lock.Process{{PID: 99, Activity: "active", QueryStart: began.Add(time.Second).In(time.FixedZone("", 3600)),
						Info: &evidence.Claim{PID: 99, Cmd: "worker", CreatedAt: began}, BlockedBy: []int{98, 97}}}},
			)},
		)
		time.Sleep(90*time.Second + 1234567*time.Nanosecond)
		got := strings.ReplaceAll(strings.TrimSpace(ask(h, "GET", api).Body.String()), `},{`, "},\n{")
		host := must(json.Marshal(hostname(t)))(t)
		want := `{"locks":[{"path":"/l/jobs/a.lock","state":"held","evidence":"kernel lock held","holder":{"pid":12,"created_at":"2000-01-01T00:00:00Z","cmd":"deploy","nonce":"N","hostname":"vm"},"pid":12,"application_name":"deploy","query_start":"2000-01-01T00:00:00Z","namespace":"jobs","entity_id":"a.lock","mode":"exclusive","granted":true,"duration":90.001,"engine":"files","hostname":"vm","blocked_by":[],"next":["held","/l/jobs/a.lock N"]},
{"path":"/l/jobs/a.lock","state":"held","evidence":"kernel lock held","pid":13,"application_name":null,"query_start":null,"namespace":"jobs","entity_id":"a.lock","mode":null,"granted":false,"duration":null,"engine":"files","hostname":null,"blocked_by":[12],"next":["nothing: it is let in when those before it have let go"]},
{"path":"","state":"unknown","evidence":"","pid":null,"application_name":null,"query_start":null,"namespace":".","entity_id":"b.lock","mode":null,"granted":true,"duration":null,"engine":"files","hostname":null,"blocked_by":[],"next":["unknown"," "]},
{"path":"","state":"dead","evidence":"","holder":{"pid":14,"created_at":"2000-01-01T01:00:00Z","mode":"shared"},"shared":true,"pid":14,"application_name":null,"query_start":"2000-01-01T01:00:00Z","namespace":".","entity_id":"c.lock","mode":"shared","granted":true,"duration":-3509.999,"engine":"files","hostname":null,"blocked_by":[],"next":["dead"," "]},
{"path":"","state":"idle","evidence":"","holder":{"pid":98,"created_at":"2000-01-01T00:00:00Z"},"pid":98,"application_name":null,"query_start":"2000-01-01T00:00:00Z","namespace":"agent","entity_id":"7","mode":"exclusive","granted":true,"duration":90.001,"engine":"database","hostname":null,"blocked_by":[],"next":null},
{"path":"","state":"active","evidence":"","pid":99,"application_name":"worker","query_start":"2000-01-01T00:00:01Z","namespace":"agent","entity_id":"7","mode":"exclusive","granted":false,"duration":89.001,"engine":"database","hostname":null,"blocked_by":[98,97],"next":["nothing: it is let in when those before it have let go"]}],"total":6,"engines":[{"name":"files","error":null},
{"name":"database","error":null}],"host":` + string(host) + `,"at":"2000-01-01T00:01:30.001234567Z"}`
		that(t, got == want, "got\n%s\nwant\n%s", got, want)
	})
}

func TestReport_Empty(t *testing.T) {
	got := ask(monitor.New(), "GET", api).Body.String()
	that(t, strings.HasPrefix(got, `{"locks":[],"total":0,"engines":[],"host":"`), "got %s", got)
}

// TestReport_Years: a lock file can name any time, and must not spoil the report.
func TestReport_Years(t *testing.T) {
	e := held("l", 1)
	for _, zone := range []int{-3600, 3600} { // 10000 in UTC, in its own zone
		e.Info.CreatedAt = time.Date(9999, 12, 31, 23+(zone+3600)/7200, 59, 59, 0, time.FixedZone("", zone))
		r := report(t, monitor.New(monitor.Engine{Name: "e", Lister: of(e)}))
		if l := r.Locks[0]; (l.QueryStart == nil) != (zone < 0) || (l.Duration == nil) != (zone < 0) || (l.Info == nil) != (zone > 0) {
			t.Errorf("zone %d: got %+v", zone, l)
		}
	}
}

// TestReport_YearBefore: nor must a time that is before the year 0 in UTC.
func TestReport_YearBefore(t *testing.T) {
	e := held("l", 1)
	e.Info.CreatedAt = time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600))
	r := report(t, monitor.New(monitor.Engine{Name: "e", Lister: of(e)}))
	if l := r.Locks[0]; l.QueryStart != nil || l.Duration != nil || l.Info == nil {
		t.Errorf("got %+v", l)
	}
}

// TestReport_Next: the advice is about the lock, whatever the session that has it does; and the
// fence is told.
func TestReport_Next(t *testing.T) {
	e := held("l", 1)
	e.Processes, e.Fence = []lock.Process{{PID: 1, Activity: "idle"}}, 42
	next := func(s lock.Status) []string { return []string{string(s.State)} }
	l := report(t, monitor.New(monitor.Engine{Name: "e", Next: next, Lister: of(e)})).Locks[0]
	that(t, len(l.Next) == 1 && l.Next[0] == "held" && l.State == "idle" && l.Fence == 42, "got %+v", l)
}

func TestReport_Errors(t *testing.T) {
	h := monitor.New(
		monitor.Engine{Name: "broken", Lister: lister(func(_ context.Context, yield func(lock.Status, error) bool) {
			yield(lock.Status{}, errors.New("no route to host"))
		})},
		monitor.Engine{Name: "partly", Lister: lister(func(_ context.Context, yield func(lock.Status, error) bool) {
			for i := range 3 {
				yield(lock.Status{}, fmt.Errorf("failure %d", i))
				yield(held(fmt.Sprint("p", i), i+1), nil)
			}
		})},
		monitor.Engine{Name: "panics", Lister: lister(func(context.Context, func(lock.Status, error) bool) { panic("oh") })},
		monitor.Engine{Name: "nil"},
		monitor.Engine{Name: "sound", Lister: of(held("l", 7))},
	)
	for range 2 { // a failure leaves nothing behind
		r := report(t, h)
		that(t, r.Total == 4 && *r.Locks[3].PID == 7, "the others are not shown: %+v", r.Locks)
		for name, want := range map[string]string{
			"broken": "no route to host", "partly": "failure 0 (and 2 more)", "panics": "panic: oh", "sound": "",
		} {
			equal(t, errorOf(t, r, name), want, name)
		}
		that(t, errorOf(t, r, "nil") != "", "an engine that is none is not said to be so")
	}
}

// TestReport_Hang: engines that do not answer hide nothing, are not asked again while
// they are silent, and are again when they have ended.
func TestReport_Hang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		release := make(chan struct{})
		h := monitor.New(
			monitor.Engine{Name: "deaf", Lister: lister(func(_ context.Context, yield func(lock.Status, error) bool) {
				calls++
				yield(held("first", 1), nil)
				<-release // whatever its context says
				yield(held("second", 2), nil)
			})},
			monitor.Engine{Name: "quitter", Lister: lister(func(ctx context.Context, _ func(lock.Status, error) bool) { <-ctx.Done() })},
			monitor.Engine{Name: "sound", Lister: of(held("l", 7))},
		)
		for i := range 3 {
			synctest.Wait() // until the quitter has ended, as it does at the same time as the request
			began := time.Now()
			r := report(t, h)
			equal(t, time.Since(began), 5*time.Second, "request", i, "took")
			that(t, r.Total == 2 && *r.Locks[0].PID == 1 && *r.Locks[1].PID == 7, "request %d: %+v", i, r.Locks)
			for _, name := range []string{"deaf", "quitter"} {
				equal(t, errorOf(t, r, name), "no answer within 5s", "request", i, name)
			}
		}
		that(t, calls == 1, "the silent engine was asked %d times", calls)
		close(release)
		synctest.Wait()
		if r := report(t, h); errorOf(t, r, "deaf") != "" || r.Total != 3 || calls != 2 {
			t.Errorf("after it has ended, asked %d times: %+v", calls, r)
		}
	})
}

// TestReport_Shared: who comes while an engine is asked shares the answer, and gets
// it though whoever asked first has left.
func TestReport_Shared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		h := monitor.New(monitor.Engine{Name: "e", Lister: lister(func(ctx context.Context, yield func(lock.Status, error) bool) {
			calls++
			time.Sleep(time.Second)
			yield(held("l", 7), ctx.Err())
		})})
		ctx, leave := context.WithCancel(t.Context())
		go h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", api, nil))
		synctest.Wait()
		done := make(chan monitor.Report)
		for range 10 {
			go func() { done <- report(t, h) }()
		}
		synctest.Wait()
		leave()
		for range 10 {
			if r := <-done; r.Total != 1 || errorOf(t, r, "e") != "" {
				t.Errorf("got %+v", r)
			}
		}
		that(t, calls == 1, "asked %d times", calls)
	})
}

// TestReport_Hostile: what strangers write arrives unchanged, as text without a
// character that could do something to a terminal or end a script.
func TestReport_Hostile(t *testing.T) {
	const nasty = "</script><img src=x onerror=alert(1)>\x00\x1b[2J\u009b\u202e\U000e0041\u2028\"\\"
	e := held(nasty, 1)
	e.Key.Space, e.Info.Cmd, e.Info.Hostname, e.Info.Mode = nasty, nasty, nasty, nasty
	e.Processes = []lock.Process{{PID: 1, Activity: nasty}}
	e.Evidence, e.Path = nasty, nasty
	next := func(lock.Status) []string { return []string{nasty} }
	h := monitor.New(monitor.Engine{Name: nasty, Lister: of(e), Next: next},
		monitor.Engine{Name: "b", Lister: lister(func(_ context.Context, yield func(lock.Status, error) bool) {
			yield(lock.Status{}, errors.New(nasty))
		})})
	body := strings.TrimSuffix(ask(h, "GET", api).Body.String(), "\n")
	for _, r := range body {
		if !unicode.IsPrint(r) || r == '<' {
			t.Fatalf("%U in %q", r, body)
		}
	}
	r := report(t, h)
	l := r.Locks[0]
	for _, got := range []string{l.Namespace, l.EntityID, *l.ApplicationName, *l.Hostname, *l.Mode, string(l.State), string(l.Evidence), l.Path, l.Info.Cmd, l.Next[0], l.Engine, errorOf(t, r, "b")} {
		that(t, got == nasty, "%q became %q", nasty, got)
	}
	e = held("\xff", 1)
	if r := report(t, monitor.New(monitor.Engine{Name: "e", Lister: of(e)})); r.Locks[0].EntityID != "\ufffd" {
		t.Errorf("a name that is no text: %q", r.Locks[0].EntityID)
	}
}

func TestReport_Many(t *testing.T) {
	const many = 5000
	entries := make([]lock.Status, many)
	for i := range entries {
		entries[i] = held(fmt.Sprint(i), i+1)
	}
	r := report(t, monitor.New(monitor.Engine{Name: "a", Lister: of(entries...)}, monitor.Engine{Name: "b", Lister: of(entries...)}))
	if r.Total != 2*many {
		t.Fatalf("%d entries", r.Total)
	}
	for i, l := range r.Locks {
		if *l.PID != i%many+1 || l.EntityID != fmt.Sprint(i%many) || l.Engine != map[bool]string{true: "a", false: "b"}[i < many] {
			t.Fatalf("entry %d is %+v", i, l)
		}
	}
}

// TestReport_Gone: a process that has the lock from a holder who has gone is reported with
// that holder, and the advice is about the process.
func TestReport_Gone(t *testing.T) {
	gone := &evidence.Claim{PID: 12, CreatedAt: time.Now(), Cmd: "agent"}
	held := lock.Status{Key: lock.Key{Space: ".", Name: "a.lock"}, State: evidence.Held, Gone: gone}
	seen := held
	seen.Processes = []lock.Process{{PID: 13, Cmd: "make"}}
	next := func(s lock.Status) []string { return []string{fmt.Sprint(s.Gone.PID, s.Processes)} }
	r := report(t, monitor.New(monitor.Engine{Name: "files", Next: next, Lister: of(seen, held)}))
	if l := r.Locks[0]; l.PID == nil || *l.PID != 13 || l.Info != nil || l.Gone == nil || l.Gone.PID != 12 || len(l.Processes) != 1 || l.Processes[0].PID != 13 {
		t.Errorf("%+v", l)
	}
	if l := r.Locks[1]; l.PID != nil || l.Gone == nil || len(l.Processes) != 0 {
		t.Errorf("%+v", l)
	}
}

// TestReport_Lines: who has a dead holder's lock is in nobody's way; readers are shown as such,
// each in a line.
func TestReport_Lines(t *testing.T) {
	waiter := []lock.Process{{PID: 9}}
	lines := func(s lock.Status) []monitor.Lock {
		t.Helper()
		return report(t, monitor.New(monitor.Engine{Name: "e", Lister: of(s)})).Locks
	}
	for state, want := range map[evidence.State][]int{evidence.Dead: {}, evidence.Unknown: {7}, evidence.Held: {7}} {
		all := lines(lock.Status{State: state, Info: &evidence.Claim{PID: 7}, Waiters: waiter})
		if len(all) != 2 || !all[0].Granted || all[1].Granted || *all[1].PID != 9 || all[1].State != evidence.Held || !slices.Equal(all[1].BlockedBy, want) {
			t.Errorf("%s: %+v", state, all)
		}
	}
	if all := lines(lock.Status{State: evidence.Free, Waiters: waiter}); len(all) != 1 || all[0].Granted || len(all[0].BlockedBy) != 0 {
		t.Errorf("free: %+v", all)
	}
	for _, shared := range []bool{true, false} {
		all := lines(lock.Status{State: evidence.Held, Shared: shared, Processes: []lock.Process{{PID: 7}, {PID: 8}}})
		want := map[bool]string{true: "shared", false: "exclusive"}[shared]
		if len(all) != 2 || *all[0].PID != 7 || *all[1].PID != 8 || *all[0].Mode != want || *all[1].Mode != want {
			t.Errorf("shared %v: %+v", shared, all)
		}
	}
}

// TestReport_Note: a holder's note is reported with it.
func TestReport_Note(t *testing.T) {
	locks := lock.Dir{Path: t.TempDir()}
	held := must(locks.Acquire(t.Context(), lock.Key{Space: "agent", Name: "7"}))(t)
	defer held.Release()
	check(t, held.(*lock.FileHold).Note("step 2"))
	if l := report(t, monitor.New(monitor.Engine{Name: "files", Lister: locks})).Locks[0]; l.Note != "step 2" || l.NotedAt.IsZero() {
		t.Errorf("%+v", l)
	}
}
