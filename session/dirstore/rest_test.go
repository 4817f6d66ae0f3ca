package dirstore_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// A transcript that was used and that no call works with takes little memory of the store: it has
// one for each chat that there ever was in this process.
func TestTranscriptsAtRestTakeLittleMemory(t *testing.T) {
	if underRace {
		t.Skip("the race detector takes memory of its own")
	}
	const most = 100 // bytes of one
	d := disktest.New()
	s := openOn(t, d)
	ref := func(i int) session.Ref {
		return testRef(fmt.Sprintf("a-session-whose-id-is-as-long-as-others-%d", i))
	}
	const transcripts = 10_000
	for i := range transcripts {
		appendTexts(t, s, ref(i), 0, "x")
	}
	require.NoError(t, s.Close())
	s = openOn(t, d)
	before := heapBytes()
	for i := range transcripts {
		assert.Len(t, lineTexts(t, s, ref(i)), 1)
	}
	held := heapBytes() - before
	assert.Equal(t, transcripts, dirstore.KnownTranscripts(s))
	assert.Less(t, held, int64(most*transcripts))
	require.NoError(t, s.Close())
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A transcript whose lines are durable is so after its rest, too: an append only adds its lines.
func TestTranscriptAtRestStaysDurable(t *testing.T) {
	for name, begin := range map[string]func(*session.Store){
		"lines in the log": func(*session.Store) {},
		"lines at once":    dirstore.WriteLinesAtOnce,
	} {
		t.Run(name, func(t *testing.T) {
			d := disktest.New()
			s := openOn(t, d)
			begin(s)
			ref := testRef("x")
			end := appendTexts(t, s, ref, 0, "one", "two")
			file(t, s, ref)
			var dirs, writes int
			d.Hook(func(op disktest.Op) error {
				switch {
				case op.Kind == disktest.OpSyncDir:
					dirs++
				case op.Kind == disktest.OpWrite && op.Name == "/sessions/main/x.jsonl":
					writes++
				}
				return nil
			})
			appendTexts(t, s, ref, end, "three")
			d.Hook(nil)
			assert.Zero(t, dirs)
			assert.LessOrEqual(t, writes, 1)
			assert.Equal(t, []string{"one", "two", "three"},
				lineTexts(t, openOn(t, afterCrash(d)), ref))
		})
	}
}
