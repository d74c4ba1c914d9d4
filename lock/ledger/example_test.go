package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/holdfast-go/holdfast/lock/ledger"
)

func ExampleLedger() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	l := ledger.Ledger{Dir: dir, AgentID: "prover-1"}
	seq, err := l.Append(ctx, []byte(`{"type":"node_created","node_id":"1"}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("appended", seq)

	// A decision made on an empty ledger, which it is no more.
	_, err = l.AppendIfSequence(ctx, []byte(`{"type":"node_created","node_id":"2"}`), 0)
	if errors.Is(err, ledger.ErrSequenceMismatch) {
		fmt.Println("read on, decide anew")
	} else if err != nil {
		log.Fatal(err)
	}

	for event, err := range l.Events(0) { // no lock is needed to read
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Sequence, string(event.Data))
	}
	// Output:
	// appended 1
	// read on, decide anew
	// 1 {"type":"node_created","node_id":"1"}
}
