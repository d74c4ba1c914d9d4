package claims_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/holdfast-go/holdfast/lock/claims"
)

func ExampleManager() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	m := &claims.Manager{Dir: dir}

	claim, err := m.Claim(ctx, "1.2.3", "agent-7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(claim.Owner, "has", claim.NodeID)

	_, err = m.Claim(ctx, "1.2.3", "agent-8")
	var taken *claims.ClaimedError
	if errors.As(err, &taken) {
		fmt.Println(taken.Owner, "must wait for", taken.Claim.Owner) // until taken.Claim.ExpiresAt
	}

	// Before claim.ExpiresAt, or the reaper may end the claim.
	if _, err := m.Refresh(ctx, "1.2.3", "agent-7"); err != nil {
		log.Fatal(err)
	}
	if err := m.Release(ctx, "1.2.3", "agent-7"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// agent-7 has 1.2.3
	// agent-8 must wait for agent-7
}
