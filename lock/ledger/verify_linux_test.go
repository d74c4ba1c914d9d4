package ledger_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// TestVerify_Unreadable: an event that may not be read is told, and the rest is looked at.
func TestVerify_Unreadable(t *testing.T) {
	if !testkit.AsNobody(t) {
		return
	}
	l := filled(t, 3)
	check(t, errors.Join(os.Chmod(at(l, "event-000002.json"), 0), os.Chmod(at(l, ".head"), 0)))
	problems, shown := verified(t, l)
	if len(problems) != 1 || shown != "1 3 " || problems[0].Kind != ledger.ProblemUnreadable || problems[0].Sequence != 2 ||
		problems[0].Path != at(l, "event-000002.json") || !strings.Contains(problems[0].What, "permission denied") {
		t.Errorf("%+v, and %s", problems, shown)
	}
}
