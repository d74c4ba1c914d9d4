module github.com/holdfast-go/holdfast/benchmarks

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	golang.org/x/sys v0.47.0
)

require github.com/gofrs/flock v0.13.1

replace github.com/holdfast-go/holdfast => ../
