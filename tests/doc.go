// Package tests holds what is tested from outside: the command and the library
// as real processes, killed at any moment, in containers, beside other programs; and a
// release, as those see it who fetch it. The agent in the folder agent is one of those
// processes, and an example. How people use the command is in testdata/script.
package tests
