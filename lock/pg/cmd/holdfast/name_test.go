package main

import "testing"

func TestNameOf(t *testing.T) {
	got, err := nameOf("postgres://u:s3cret@db:5433/app")
	if want := "PostgreSQL, app at db:5433"; got != want || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}
