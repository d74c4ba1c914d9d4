//go:build !(darwin || freebsd || linux)

package platform

// bootID is unknown. The time of boot is no substitute: the BSDs move it when the
// clock is stepped. Windows counts boots in the registry, as BootId beside the
// prefetcher's settings, but nothing that Microsoft documents says when, or that
// a fast startup, which services of the session before survive, leaves it alone;
// and copies of one virtual machine count alike.
func bootID() (string, bool) { return "", true }
