package few_test

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/few"
)

// A Map does what a built-in map does, with few entries and with many.
func TestMapIsAMap(t *testing.T) {
	for _, keys := range []int{1, 2, 4, 5, 6, 20} {
		var m few.Map[int, string]
		want := map[int]string{}
		rng := rand.New(rand.NewPCG(1, uint64(keys)))
		for range 2000 {
			k, v := rng.IntN(keys), string(rune('a'+rng.IntN(26)))
			switch rng.IntN(4) {
			case 0, 1:
				m.Set(k, v)
				want[k] = v
			case 2:
				m.Delete(k)
				delete(want, k)
			case 3:
				for k, v := range m.All() {
					require.Equal(t, want[k], v)
					if rng.IntN(8) == 0 {
						m.Delete(k)
						delete(want, k)
					}
				}
			}
			require.Equal(t, want, maps.Collect(m.All()))
			require.Equal(t, len(want), m.Len())
			_, ok := want[k]
			require.Equal(t, ok, m.Has(k))
			require.Equal(t, want[k], m.Of(k))
		}
	}
}

func TestAllEndsEarly(t *testing.T) {
	for _, keys := range []int{2, 10} {
		var m few.Map[int, int]
		for k := range keys {
			m.Set(k, k)
		}
		seen := 0
		for range m.All() {
			seen++
			break
		}
		assert.Equal(t, 1, seen)
	}
}

// An entry that was removed is not kept by the memory behind the list.
func TestDeleteLetsGo(t *testing.T) {
	var m few.Map[int, *int]
	m.Set(1, new(int))
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		m.Delete(1)
		m.Set(1, nil)
	}))
}
