module github.com/holdfast-go/holdfast

go 1.25.0

require (
	github.com/gofrs/flock v0.13.1
	golang.org/x/sys v0.47.0
)
