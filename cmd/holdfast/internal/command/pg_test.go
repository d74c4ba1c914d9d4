package command

import (
	"strings"
	"testing"
)

func TestNameOf(t *testing.T) {
	got, err := nameOf("postgres://u:s3cret@db:5433/app")
	if want := "PostgreSQL, app at db:5433"; got != want || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// TestNameOf_Secret: where a password has come to be part of something else, nothing is
// shown of it, nor is the server asked, who would quote it.
func TestNameOf_Secret(t *testing.T) {
	for _, conn := range []string{
		"host=app:s3cret@db dbname=app", "user=app/s3cret@db", "postgres://app%3As3cret@db/app", "postgres://app:s3@s3cret@db/app",
		"user=app s3cret dbname=app", "host=db user=app:s3cret", "s3cret",
	} {
		name, err := nameOf(conn)
		if err == nil || strings.Contains(name+err.Error(), "s3cret") {
			t.Errorf("%q: %q, %v", conn, name, err)
		}
	}
}
