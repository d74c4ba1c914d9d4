// Command holdfast holds a lock while a command runs, and tells who holds a
// lock and why they are believed to be alive.
//
//	holdfast run deploy.lock ./deploy production
//	holdfast status deploy.lock
//
// See "holdfast help".
package main

import "github.com/holdfast-go/holdfast/cmd/holdfast/internal/command"

func main() { command.Main() }
