package agent_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// archiveCounter counts what is archived, and what is read of a journal.
type archiveCounter struct {
	session.Transcripts

	mu       sync.Mutex
	archived map[session.Key]int
	entries  int
}

func (c *archiveCounter) Archive(
	ctx context.Context, ref session.Ref, at time.Time,
) (string, error) {
	c.mu.Lock()
	c.archived[ref.Key]++
	c.mu.Unlock()
	return c.Transcripts.Archive(ctx, ref, at)
}

// read returns how many entries have been read since the last call.
func (c *archiveCounter) read() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, c.entries = c.entries, 0
	return n
}

// countingReads is a journal whose reads are counted.
type countingReads struct {
	session.Journal

	c *archiveCounter
}

func (j countingReads) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		for e, err := range j.Journal.Read(ctx, root, after) {
			j.c.mu.Lock()
			j.c.entries++
			j.c.mu.Unlock()
			if !yield(e, err) {
				return
			}
		}
	}
}

// Pain 33: however many sessions have been archived, over a kill -9, a process that opens the store
// reads no more of it. What may be archived is, and what has a delivery that has not arrived, or a
// sub-agent that works, is not.
func TestAHundredThousandArchivedSessions(t *testing.T) {
	few, many := 1000, 100_000
	if underRace || testing.Short() {
		many = 5000
	}
	reads := map[int]int{}
	for _, n := range []int{few, many} {
		synctest.Test(t, func(t *testing.T) { reads[n] = readAfterArchiving(t, n) })
	}
	t.Logf("entries read: %v", reads)
	require.Less(t, reads[many], 2*reads[few])
}

// archivingRunner works for a long time in the sub-agent of a sub-agent, which waits for it, and
// else not at all.
type archivingRunner struct{}

// RunTurn implements spawn.Runner.
func (archivingRunner) RunTurn(
	ctx context.Context, tn *spawn.TurnInput,
) (out spawn.TurnResult, err error) {
	out.Result.Text = "found"
	switch {
	case tn.Session.Depth == 2:
		err = pause(ctx, 1000*time.Hour)
	case tn.Run.Task == "waits" && tn.N == 1:
		_, err = tn.Spawn(ctx, spawn.Request{Task: "works"})
	}
	return out, err
}

// readAfterArchiving has n sessions archived by two processes, the first of which is killed, and
// returns how many entries a third one reads to answer a person.
func readAfterArchiving(t *testing.T, n int) int {
	t.Helper()
	memory := session.NewMemory()
	c := &archiveCounter{Transcripts: memory.Transcripts, archived: map[session.Key]int{}}
	open := func() (s *spawn.Supervisor, kill func()) {
		j := spawntest.NewCrashJournal(countingReads{memory.Journal, c})
		s, err := spawn.Open(t.Context(), spawn.Config{
			Store:  &session.Store{Journal: j, Transcripts: c},
			Runner: archivingRunner{}, CallerRun: true, Grace: time.Second,
			Rules: policy.Rules{Subagents: policy.Subagents{
				MaxChildren: 20, MaxConcurrent: 20, MaxSpawnDepth: 2, ArchiveAfter: time.Minute,
			}},
			Deliver: func(context.Context, spawn.Delivery) error { return errors.New("down") },
		})
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
		synctest.Wait()
		return s, func() {
			j.Die()
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			_ = s.Shutdown(gone)
			require.NoError(t, <-ran)
		}
	}
	start := func(s *spawn.Supervisor, task string, told bool) session.Key {
		info, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: task, Announce: told})
		require.NoError(t, err)
		return info.Key
	}
	s, kill := open()
	for i := range n {
		if i == n/2 {
			kill()
			s, kill = open()
		}
		start(s, "x", false)
		if i%10 == 9 {
			synctest.Wait() // no more than 20 work at a time
		}
		if i%1000 == 999 {
			time.Sleep(2 * time.Minute)
		}
	}
	held := []session.Key{start(s, "is told", true), start(s, "waits", false)}
	time.Sleep(10 * time.Minute)
	require.Len(t, c.archived, n)
	for _, key := range held {
		require.NotContains(t, c.archived, key)
	}
	kill()

	c.read()
	answered := false
	cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return textResult("hello")
	})
	cfg.Store = &session.Store{Journal: countingReads{memory.Journal, c}, Transcripts: c}
	cfg.Reply = func(context.Context, agent.Delivery) error { answered = true; return nil }
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	ran := make(chan error, 1)
	go func() { ran <- rt.Run(context.WithoutCancel(t.Context())) }()
	_, err = rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: "are you there?"})
	require.NoError(t, err)
	synctest.Wait()
	require.True(t, answered)
	read := c.read()
	require.NoError(t, rt.Shutdown(t.Context()))
	require.NoError(t, <-ran)
	return read
}
