package command

import (
	"context"
	"sync"
)

// maxDeeds is how many commands a memory keeps.
const maxDeeds = 1000

// A memory keeps what commands have come to, so that one that the transport hands over again is
// done once and answered as the first time. It forgets the oldest ones, and ends with the process.
// The zero memory is ready for use.
type memory struct {
	mu    sync.Mutex
	deeds map[string]*deed // guarded by mu
	order []string         // guarded by mu: the ids of deeds, the oldest first
}

// A deed is a command that is being done, or was.
type deed struct {
	over   chan struct{} // closed when answer is set, or never will be
	answer Answer        // nil: it was not done, or not all of it
}

// once returns the answer of do, or that of the call before it with the same id, for which it
// waits. What has failed is done again. An empty id is that of no other call.
func (m *memory) once(
	ctx context.Context, id string, do func() (Answer, error),
) (Answer, error) {
	if id == "" {
		return do()
	}
	for {
		d, first := m.begin(id)
		if first {
			return m.do(id, d, do)
		}
		select {
		case <-d.over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if d.answer != nil {
			return d.answer, nil
		}
	}
}

// begin returns the deed with an id, and whether the caller is to do it.
func (m *memory) begin(id string) (d *deed, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d, known := m.deeds[id]; known {
		return d, false
	}
	if m.deeds == nil {
		m.deeds = make(map[string]*deed)
	}
	if len(m.order) >= maxDeeds {
		delete(m.deeds, m.order[0])
		m.order = m.order[1:]
	}
	d = &deed{over: make(chan struct{})}
	m.deeds[id], m.order = d, append(m.order, id)
	return d, true
}

// do does a deed, and forgets it if it fails.
func (m *memory) do(id string, d *deed, do func() (Answer, error)) (a Answer, err error) {
	defer func() {
		if d.answer == nil {
			m.forget(id, d)
		}
		close(d.over)
	}()
	if a, err = do(); err == nil {
		d.answer = a
	}
	return a, err
}

func (m *memory) forget(id string, d *deed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deeds[id] != d {
		return // a later one has taken its place
	}
	delete(m.deeds, id)
	for i, x := range m.order {
		if x == id {
			m.order = append(m.order[:i:i], m.order[i+1:]...)
			break
		}
	}
}
