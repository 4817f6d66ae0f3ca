package kill

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a longer run sets; see the script that starts it.
const (
	envKills = "OFFSHOOT_KILLS" // how often, 10 unless set
	// how many of a hundred must have been in a compaction, 0 unless set
	envHits = "OFFSHOOT_KILL_HITS"
)

// killsPerState is after how many kills a bot comes to an end, and another one begins.
const killsPerState = 10

// Bots under load, with trees in trees, failures and cascade stops, are killed again and again at
// random moments, while the log grows and is compacted. What they have acknowledged is there each
// time, and in the end everything has ended and the requester was told of it, once.
//
// R1: in some lives the file lock of the bot is removed, while it runs or while it is stopped. No
// other process opens the directory until the bot is dead, and what it has acknowledged until then
// is there as well.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	kills, least := setting(t, envKills, 10), setting(t, envHits, 0)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	worlds := []*witness{newWitness(t, callerRun), newWitness(t, managed)}
	for n := range kills {
		w := worlds[n%len(worlds)]
		w.runLife(t, strconv.Itoa(n), time.Duration(1+rng.IntN(400))*time.Millisecond, rng)
		log, idle := w.trace.countNew(t, w.dir)
		if w.sum.hits += min(log+idle, 1); log > 0 {
			w.sum.inLog++
		}
		when := fmt.Sprintf("%s, after kill %d", w.world, n)
		w.checkDisk(t, when)
		w.checkGiven(t, when)
		w.checkPlaces(t, when)
		if n/len(worlds)%killsPerState == killsPerState-1 {
			w.endState(t)
			w.beginState(t)
		}
	}
	hits := 0
	for _, w := range worlds {
		w.endState(t)
		hits += w.sum.hits
		t.Logf("%s: %+v", w.world, w.sum)
	}
	t.Logf("%d kills, %d of them in a compaction", kills, hits)
	require.GreaterOrEqual(t, 100*hits, least*kills,
		"too few kills have hit a compaction for this to mean anything")
}

// endState lets the child come to an end, and looks at what has become of everything.
func (w *witness) endState(t *testing.T) {
	t.Helper()
	if len(w.last) == 0 {
		return
	}
	w.runLife(t, lastLife, 0, nil)
	w.checkEnd(t, w.readArrivals(t))
	require.Empty(t, w.leftAtTheEnd(t))
	require.NoError(t, os.RemoveAll(w.dir))
}

// setting returns a number from the environment.
func setting(t *testing.T, name string, unset int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return unset
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err, name)
	return n
}
