package spawn

import (
	cryptorand "crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"sync"
)

// idSource makes random numbers and ids that cannot be guessed, without a system call for each. It
// is safe for concurrent use.
type idSource struct {
	mu  sync.Mutex
	rng *rand.ChaCha8
}

// newIDSource returns an idSource that the system's random numbers have seeded.
func newIDSource() *idSource {
	var seed [32]byte
	cryptorand.Read(seed[:]) // never fails
	return &idSource{rng: rand.NewChaCha8(seed)}
}

// rand returns a random number.
func (s *idSource) rand() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.Uint64()
}

// newID returns a random UUID of version 4, as [session.NewID] does.
func (s *idSource) newID() string {
	var id [16]byte
	s.mu.Lock()
	binary.LittleEndian.PutUint64(id[:8], s.rng.Uint64())
	binary.LittleEndian.PutUint64(id[8:], s.rng.Uint64())
	s.mu.Unlock()
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4, variant 10
	var text [36]byte
	at := text[:0]
	for i, group := range [...][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			at = append(at, '-')
		}
		at = hex.AppendEncode(at, group)
	}
	return string(at)
}
