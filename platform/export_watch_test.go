package platform

// PollExit is WatchExit where the kernel does not tell.
func PollExit(p Process) (*Exit, error) {
	e := &Exit{exited: make(chan struct{})}
	stop, err := pollExit(p, func() { close(e.exited) })
	e.stop = stop
	return e, err
}
