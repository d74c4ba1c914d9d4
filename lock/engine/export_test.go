package engine

// Kept returns how many contexts are kepc.
func (c *Contexts) Kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.live)
}
