package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/lock"
)

// An account is a row of a database, which remembers the fence of its last writer.
type account struct {
	balance int
	fence   int64
}

// write stands for this, in the transaction of the work itself:
//
//	UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2
//
// If it has changed no row, a later holder has written.
func (a *account) write(balance int, fence int64) error {
	if fence < a.fence {
		return errors.New("a later holder has written")
	}
	a.balance, a.fence = balance, fence
	return nil
}

// A lock can't stop who goes on writing after it was lost. The database can: it refuses
// who has a smaller fence than it has seen.
func ExampleFileHold_Fence() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	f := lock.File{Path: filepath.Join(dir, "account.lock")}

	// Each holder asks for its fence while it has the lock.
	var fences []int64
	for range 2 {
		err := f.Do(context.Background(), func(_ context.Context, held *lock.FileHold) error {
			fence, err := held.Fence()
			fences = append(fences, fence)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}

	// The first holder was late: the second one has written before it.
	var a account
	fmt.Println("second:", a.write(20, fences[1]))
	fmt.Println("first:", a.write(10, fences[0]))
	fmt.Println("balance:", a.balance)
	// Output:
	// second: <nil>
	// first: a later holder has written
	// balance: 20
}
