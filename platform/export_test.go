package platform

// LockError is the error of TryLock for one of the system's.
func (f *File) LockError(err error) error { return f.lockError(err) }

// OnceComplete is onceComplete, for numbers.
func OnceComplete(find func() (int, bool)) func() int { return onceComplete(find) }
