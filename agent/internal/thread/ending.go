package thread

import "sync"

// An Ending says who returns the calls of a ThreadHost that a shutdown leaves behind: the calls of
// Shutdown that are there at its end, or Run if there is none. The zero Ending is ready for use.
type Ending struct {
	mu      sync.Mutex
	callers int  // calls of Shutdown under way
	told    bool // one of them has come to the end
	silent  bool // Run has left it to them
}

// Enter counts a call of Shutdown.
func (e *Ending) Enter() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.callers++
}

// Leave takes off a call of Shutdown that returns before the end. It reports false, and the call
// tells after all, if Run has counted on it and no other is left.
func (e *Ending) Leave() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.silent && !e.told && e.callers == 1 {
		return false
	}
	e.callers--
	return true
}

// Tell takes off a call of Shutdown that has come to the end.
func (e *Ending) Tell() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.callers--
	e.told = true
}

// IsTold reports to Run whether a call of Shutdown returns what is left, or has.
func (e *Ending) IsTold() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.silent = e.told || e.callers > 0
	return e.silent
}
