package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/holdfast-go/holdfast/lock/dispatch"
)

func ExampleLocks_Acquire() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	locks := dispatch.Locks{Dir: dir}

	claim, err := locks.Acquire(ctx, "session-7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("starting", claim.GardenID)

	_, err = locks.Acquire(ctx, "session-7")
	var conflict *dispatch.ConflictError
	if errors.As(err, &conflict) {
		fmt.Println(conflict.Reason) // conflict.Detail tells people who has it, and what to do
	}

	outcome, err := claim.Release()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(outcome)
	// Output:
	// starting session-7
	// target-locked
	// released
}
