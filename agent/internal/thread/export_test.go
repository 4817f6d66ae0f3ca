package thread

// Held returns how many locks are kept.
func (l *Locks[K]) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}
