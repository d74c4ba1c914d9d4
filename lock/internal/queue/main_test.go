package queue_test

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }
