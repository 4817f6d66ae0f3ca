package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/sessiontest"
)

// A turn begins where another one has ended: the slots of a lane are in use all the time, never
// more than there are, and the requesters have their turn each.
func TestLaneOfThreeProcesses(t *testing.T) {
	const processes, requesters = 3, 24
	file := filepath.Join(t.TempDir(), "events")
	synctest.Test(t, func(t *testing.T) {
		cluster := sessiontest.NewCluster(sessiontest.ClusterOptions{})
		var all sync.WaitGroup
		var r Result
		var mu sync.Mutex
		for i := range processes {
			l := Load{
				Name: fmt.Sprint("p", i), AtOnce: 2, Turn: Turn, For: 10 * time.Second, Events: file,
			}
			for n := i; n < requesters; n += processes {
				l.Requesters = append(l.Requesters, n)
			}
			all.Go(func() {
				took := serveAlone(t, l, cluster)
				mu.Lock()
				defer mu.Unlock()
				r.Took = append(r.Took, took...)
			})
		}
		all.Wait()
		fewest, most := r.Fairness()
		require.InDelta(t, fewest, most, 4, "a tenth")
	})
	events, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = events.Close() }()
	u, err := ReadUse(events)
	require.NoError(t, err)
	require.Equal(t, Slots, u.Most)
	require.InDelta(t, Slots/Turn.Seconds(), u.Rate, 2, "time passes in turns alone")
	require.Equal(t, Turn, u.Turn)
	require.Zero(t, u.End+u.Grant+u.Begin)
}

// serveAlone has one process of a cluster serve its load.
func serveAlone(t *testing.T, l Load, c *sessiontest.Cluster) (took []Took) {
	t.Helper()
	in, start := io.Pipe()
	said, out := io.Pipe()
	s := c.Open(l.Name)
	var serving sync.WaitGroup
	serving.Go(func() { assert.NoError(t, l.Serve(context.Background(), s, in, out)) })
	p := &process{in: start, out: bufio.NewReader(said)}
	assert.NoError(t, p.begun())
	_, err := fmt.Fprintln(start)
	assert.NoError(t, err)
	took, err = p.took()
	assert.NoError(t, err)
	_ = start.Close()
	serving.Wait()
	return took
}

// What processes have noted says how long each step took.
func TestReadUse(t *testing.T) {
	var text strings.Builder
	note := func(ms int, kind, process, ticket string) {
		fmt.Fprintf(&text, "%d %s %s %s.\n", ms*int(time.Millisecond), kind, process, ticket)
	}
	for n := range 10 { // two processes take turns in one slot
		p, id, at := fmt.Sprint("p", n%2), fmt.Sprint("t", n), 100*n
		note(at, "given", p, id)
		note(at+3, "begun", p, "")
		note(at+90, "ended", p, "")
		note(at+95, "freed", p, id)
		note(at+96, "asked", p, id+"next")
		note(at+96, "freed", p, id+"next") // gives its place up, and no slot
	}
	u, err := ReadUse(strings.NewReader(text.String()))
	require.NoError(t, err)
	ms := time.Millisecond
	require.Equal(t, Use{
		Most: 1, Rate: u.Rate, Turn: 87 * ms, End: 5 * ms, Grant: 5 * ms, Beyond: 5 * ms,
		Begin: 3 * ms,
	}, u)
	require.InDelta(t, 10, u.Rate, 1)

	_, err = ReadUse(strings.NewReader("yesterday begun p0 .\n"))
	require.ErrorContains(t, err, `load: event "yesterday begun p0 ."`)
	u, err = ReadUse(strings.NewReader(""))
	require.NoError(t, err)
	require.Zero(t, u)
}

// A Load is a text without a space, for an argument.
func TestTextOfALoad(t *testing.T) {
	l := Load{Target: "a b", Name: "p0", Requesters: []int{1, 2}, Turn: time.Second}
	again, err := Of(l.String())
	require.NoError(t, err)
	require.Equal(t, l, again)
	_, err = Of("{")
	require.Error(t, err)
}
