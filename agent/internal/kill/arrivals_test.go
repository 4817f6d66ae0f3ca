package kill

import (
	"slices"
	"sync"
)

// arrivalLog is what the world remembers of what has left a bot: the keys under which each thing
// was told.
type arrivalLog struct {
	mu   sync.Mutex
	keys map[string][]string
}

func (h *arrivalLog) arrive(key string, things ...string) error {
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
