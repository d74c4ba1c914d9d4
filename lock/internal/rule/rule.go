// Package rule is the door by which a room beside the face has a lock file's holder judged by
// another program's rule. No other module can name its types, so none can change the facts of
// the ladder of evidence.
package rule

import (
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
)

// Rule is what another program's rule changes. Each field may be nil.
type Rule struct {
	// Now is the clock for what is written, and for ages; nil means time.Now.
	Now func() time.Time
	// Amend may change the facts of a claim before the ladder judges them. It is not called where
	// somebody has the kernel lock of the file.
	Amend func(*evidence.Said, *evidence.Facts)
}
