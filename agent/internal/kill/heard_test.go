package kill

import (
	"slices"
	"sync"
)

// heard is what the world remembers of what has left a bot: the keys under which each thing was told.
type heard struct {
	mu   sync.Mutex
	keys map[string][]string
}

func (h *heard) arrive(key string, things ...string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.keys == nil {
		h.keys = make(map[string][]string)
	}
	for _, thing := range things {
		if !slices.Contains(h.keys[thing], key) {
			h.keys[thing] = append(h.keys[thing], key)
		}
	}
	return nil
}
