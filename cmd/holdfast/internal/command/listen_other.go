//go:build !unix

package command

// ownerOnly does nothing: there is no mask, and the folder's rights decide.
func ownerOnly(fn func()) { fn() }
