package monitor_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/monitor"
)

// silent is an engine that tells of one lock, and ends with its context, without a word of that.
type silent struct{}

func (silent) List(ctx context.Context) iter.Seq2[lock.Status, error] {
	return func(yield func(lock.Status, error) bool) {
		yield(lock.Status{Key: lock.Key{Space: "s", Name: "told"}, State: evidence.Held}, nil)
		<-ctx.Done()
	}
}

// TestReport_Silent runs on a clock of its own: what was cut short is said to be so, whether the
// engine says it or not.
func TestReport_Silent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := httptest.NewRecorder()
		monitor.New(monitor.Engine{Name: "silent", Lister: silent{}}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/api/advisory-locks", nil))
		if body := answer.Body.String(); !strings.Contains(body, `"error":"no answer within 5s"`) || !strings.Contains(body, `"told"`) {
			t.Errorf("%s", body)
		}
	})
}
