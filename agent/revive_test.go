package agent_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// spawnedOver spawns a task over crashes, and returns the key of its session.
func spawnedOver(h *harness, from session.Key, task agent.Task) (key session.Key) {
	task.Key = task.Text
	require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
		c, err := rt.Session(from).Spawn(h.Context(), task)
		if err == nil {
			key = c.Key()
		}
		return err
	}))
	return key
}

// tokensOf returns how many tokens a session and all below it have used.
func tokensOf(h *harness, key session.Key) (n int64) {
	require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
		u, err := rt.Usage(h.Context(), agent.UsageQuery{Session: key, Below: true})
		n = u.Total.Total()
		return err
	}))
	return n
}

// 2.4: an archived sub-agent comes back with its conversation, files and runs, wherever the process
// dies, and what it has used counts once. A message begins another run of it, and it is archived
// again.
func TestReviveOverEveryCrash(t *testing.T) {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		r := agent.Result{Text: fmt.Sprint(len(tn.Messages), " messages"), Usage: agent.Usage{Input: 100}}
		return r, pause(ctx, time.Second)
	})
	agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
		key := spawnedOver(h, topKey, agent.Task{Text: "work"})
		h.Pass(3 * time.Hour)
		require.Empty(h.T(), h.Runs())
		used := tokensOf(h, topKey)
		revive := func(rt *agent.Runtime) error { return rt.Session(key).Revive(h.Context()) }
		for range 2 {
			require.NoError(h.T(), h.Do(revive))
		}
		require.Equal(h.T(), used, tokensOf(h, topKey), "it is not counted twice")
		runs := h.Runs()
		require.Len(h.T(), runs, 1)
		require.Equal(h.T(), key, runs[0].Key)
		require.Equal(h.T(), key, spawnedOver(h, topKey, agent.Task{Text: "work"}), "its spawn key")
		for range 2 { // a run whose process dies is not repeated
			h.PostTo(key, "more")
			h.Pass(time.Minute)
		}
		var page agent.HistoryPage
		require.NoError(h.T(), h.Do(func(rt *agent.Runtime) (err error) {
			page, err = rt.Session(key).History(h.Context(), agent.HistoryQuery{})
			return err
		}))
		require.Contains(h.T(), fmt.Sprint(textsOfPage(page)), "more")
		require.Greater(h.T(), tokensOf(h, topKey), used)
		h.Pass(3 * time.Hour)
		require.Empty(h.T(), h.Runs())
		require.NoError(h.T(), h.Do(revive), "it comes back again")
		require.Len(h.T(), h.Runs(), 1)
	})
}

// A revival that no caller repeats is whole or has not happened, wherever the process dies: the
// session is in its tree and takes a message, or it is an archive, which is read, is named by the
// error of a Post, and is purged with all its files.
func TestReviveThatIsCutOffOverEveryCrash(t *testing.T) {
	cfg := configAnswering(asText)
	cfg.Rules.Subagents.ArchiveAfter, cfg.Rules.KeepArchives = time.Hour, 24*time.Hour
	back, archived := 0, 0
	agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
		var key session.Key
		require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
			c, err := rt.Session(topKey).Spawn(h.Context(), agent.Task{
				Text: "work", Key: "work", Attachments: attaching("a", "one"),
			})
			if err == nil {
				key = c.Key()
			}
			return err
		}))
		h.Pass(3 * time.Hour)
		require.Empty(h.T(), h.Runs())
		ctx, cancel := context.WithCancel(h.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = h.Session(key).Revive(ctx) // once
		}()
		h.Pass(time.Minute)
		cancel() // a call does not return to a process that was killed
		<-done
		var page agent.HistoryPage
		require.NoError(h.T(), h.Do(func(rt *agent.Runtime) (err error) {
			page, err = rt.Session(key).History(h.Context(), agent.HistoryQuery{})
			return err
		}))
		if runs := h.Runs(); len(runs) > 0 {
			back++
			require.Equal(h.T(), key, runs[0].Key)
			require.False(h.T(), page.Archived)
			h.PostTo(key, "more")
			h.Pass(3 * time.Hour)
			return
		}
		archived++
		require.True(h.T(), page.Archived)
		require.ErrorIs(h.T(), h.Do(func(rt *agent.Runtime) error {
			_, err := rt.Session(key).Post(h.Context(), agent.Incoming{Text: "x"})
			return err
		}), agent.ErrArchived)
		h.Pass(9 * 24 * time.Hour) // its key is known for seven days
		require.ErrorIs(h.T(), h.Do(func(rt *agent.Runtime) error {
			_, err := rt.Session(key).History(h.Context(), agent.HistoryQuery{})
			return err
		}), agent.ErrNotFound)
	})
	if playsEveryCrash() {
		require.Greater(t, back, 3)
		require.Greater(t, archived, 3)
	}
}

// A session that is deleted while it is being brought back is archived again, and so it is if its
// store fails. Revive says which.
func TestReviveMeetsADeletion(t *testing.T) {
	store := session.NewMemory()
	slow := &slowRestore{Transcripts: store.Transcripts}
	store.Transcripts = slow
	cfg := configAnswering(asText)
	cfg.Store = store
	agenttest.Run(t, cfg, nil, func(h *harness) {
		c, _ := endedRun(t, h)
		deleted := make(chan error, 1)
		slow.meanwhile = func() {
			go func() { deleted <- h.Runtime().DeleteSession(h.Context(), c.Key()) }()
			_ = pause(h.Context(), time.Second)
		}
		err := c.Session().Revive(h.Context())
		require.ErrorIs(t, err, agent.ErrArchived)
		require.ErrorIs(t, err, agent.ErrNotFound)
		require.NoError(t, <-deleted)
		require.Empty(t, h.Runs())
		page, err := c.Session().History(h.Context(), agent.HistoryQuery{})
		require.NoError(t, err)
		require.True(t, page.Archived)
		slow.meanwhile = nil
		require.NoError(t, c.Session().Revive(h.Context()))
		require.Len(t, h.Runs(), 1)
	})
}

// slowRestore is a store in which something happens before a transcript is restored.
type slowRestore struct {
	session.Transcripts
	meanwhile func()
}

func (s *slowRestore) Restore(ctx context.Context, ref session.Ref) error {
	if s.meanwhile != nil {
		s.meanwhile()
	}
	return s.Transcripts.Restore(ctx, ref)
}

// A session comes back below sessions that are alive and in the tree, under the rules of today; and
// the error says what is in the way.
func TestReviveIsRefused(t *testing.T) {
	cfg := nesting(2, agent.CleanupKeep)
	cfg.Rules.Subagents.ArchiveAfter = time.Minute
	agenttest.Run(t, cfg, nil, func(h *harness) {
		outer := spawnedOver(h, topKey, agent.Task{Text: "down"})
		h.Pass(1500 * time.Millisecond)
		inner := h.Child("depth2").Key
		h.Pass(time.Hour)
		require.Empty(t, h.Runs())
		revive := func(k session.Key) error { return h.Session(k).Revive(h.Context()) }
		err := revive(inner)
		require.ErrorIs(t, err, agent.ErrArchived)
		require.Contains(t, err.Error(), outer.String())
		require.NoError(t, revive(outer))
		require.NoError(t, revive(outer), "it is in the tree")
		require.NoError(t, revive(topKey), "so is a top-level session")
		err = revive(inner)
		require.ErrorIs(t, err, agent.ErrEnded)
		require.Contains(t, err.Error(), outer.String())
		page, err := h.Session(inner).History(h.Context(), agent.HistoryQuery{})
		require.NoError(t, err)
		require.True(t, page.Archived, "a refused revival leaves the archive as it was")
		h.PostTo(outer, "again")
		require.NoError(t, revive(inner))
		require.ErrorIs(t, revive(childKeyOf(t, topKey)), agent.ErrNotFound)
		var input *agent.InputError
		require.ErrorAs(t, revive(session.Key{}), &input)
	})
}

// A store without Files keeps no record of what it archives, and Revive says so.
func TestReviveWithoutFiles(t *testing.T) {
	store := session.NewMemory()
	store.Files = nil
	cfg := configAnswering(asText)
	cfg.Store = store
	agenttest.Run(t, cfg, nil, func(h *harness) {
		c, _ := endedRun(t, h)
		err := c.Session().Revive(h.Context())
		require.ErrorIs(t, err, agent.ErrNoRecord)
		require.ErrorIs(t, err, session.ErrNoFiles)
		page, err := c.Session().History(h.Context(), agent.HistoryQuery{})
		require.NoError(t, err)
		require.True(t, page.Archived)
	})
}

// unrestorable are transcripts that cannot be restored.
type unrestorable struct{ session.Transcripts }

func (unrestorable) Restore(context.Context, session.Ref) error { return errDisk }

// A store that fails is the error of Revive, and the session stays archived.
func TestReviveOfAFailingStore(t *testing.T) {
	store := session.NewMemory()
	store.Transcripts = unrestorable{store.Transcripts}
	cfg := configAnswering(asText)
	cfg.Store = store
	agenttest.Run(t, cfg, nil, func(h *harness) {
		c, _ := endedRun(t, h)
		require.ErrorIs(t, c.Session().Revive(h.Context()), errDisk)
		require.Empty(t, h.Runs())
		require.ErrorIs(t, c.Steer(h.Context(), "x"), agent.ErrArchived)
	})
}

// What was archived for longer than Rules.KeepArchives is removed for good, by the running Runtime
// and by Purge, and what is still named stays: an outcome that is kept for a key.
func TestPurge(t *testing.T) {
	for _, by := range []string{"Run", "Purge"} {
		t.Run(by, func(t *testing.T) {
			inStores(t, func(t *testing.T, open func() *session.Store) {
				store := open()
				cfg := configAnswering(asText)
				cfg.Store = store
				cfg.Rules.Subagents.ArchiveAfter = time.Minute
				if by == "Run" {
					cfg.Rules.KeepArchives = 48 * time.Hour
				}
				running(t, cfg, func(rt *agent.Runtime) {
					s := rt.Session(topKey)
					c, err := s.Spawn(t.Context(), agent.Task{Text: "x"})
					require.NoError(t, err)
					keyed, err := s.Spawn(t.Context(), agent.Task{Text: "y", Key: "y"})
					require.NoError(t, err)
					time.Sleep(40 * time.Hour)
					page, err := c.Session().History(t.Context(), agent.HistoryQuery{})
					require.NoError(t, err)
					require.True(t, page.Archived)
					time.Sleep(10 * time.Hour)
					if by == "Purge" {
						n, err := rt.Purge(t.Context())
						require.NoError(t, err)
						require.Zero(t, n, "without KeepArchives archives are kept for ever")
						return
					}
					_, err = c.Session().History(t.Context(), agent.HistoryQuery{})
					require.ErrorIs(t, err, agent.ErrNotFound)
					require.ErrorIs(t, c.Session().Revive(t.Context()), agent.ErrNotFound)
					ref := session.Ref{Key: c.Key(), SessionID: c.Key().ID()}
					for f, err := range store.Files.List(t.Context(), ref) {
						t.Errorf("%v is left, %v", f, err)
					}
					page, err = keyed.Session().History(t.Context(), agent.HistoryQuery{})
					require.NoError(t, err, "its key is known")
					require.True(t, page.Archived)
					again, err := s.Spawn(t.Context(), agent.Task{Text: "y", Key: "y"})
					require.NoError(t, err)
					require.Equal(t, keyed.ID(), again.ID())
					text, err := again.Wait(t.Context())
					require.NoError(t, err)
					require.NotEmpty(t, text)
				})
				if by == "Run" {
					return
				}
				cfg.Store, cfg.Rules.KeepArchives = open(), 49*time.Hour
				rt, err := agent.Open(t.Context(), cfg)
				require.NoError(t, err)
				n, err := rt.Purge(t.Context())
				require.NoError(t, err)
				require.Equal(t, 1, n)
				n, err = rt.Purge(t.Context())
				require.NoError(t, err)
				require.Zero(t, n)
				require.NoError(t, rt.Shutdown(t.Context()))
			})
		})
	}
}

// 2.4, 2.12: what is archived at depth 1, 2 and 5 comes back from the top down, where each one
// above is alive, takes a message, is archived again, and is removed for good when its time has
// come, but for what a key names, wherever the process dies.
func TestArchivesOfEveryDepth(t *testing.T) {
	skipUnderRace(t)
	for _, depth := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(depth), func(t *testing.T) {
			cfg := nesting(depth, agent.CleanupKeep)
			cfg.Runner = agent.RunnerFunc(func(
				ctx context.Context, tn *agent.Turn,
			) (r agent.Result, err error) {
				long := 30 * time.Minute
				if tn.N == 1 {
					long = time.Second
					if at := tn.Session.Depth; at > 0 && at < depth { // without a key
						if _, err := tn.Spawn(ctx, agent.Task{Text: "down"}); err != nil {
							return r, err
						}
					}
				}
				r.Text = "done"
				return r, pause(ctx, long)
			})
			cfg.Rules.Subagents.ArchiveAfter, cfg.Rules.KeepArchives = time.Hour, 24*time.Hour
			reached := 0
			agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
				if n := archiveNested(h); n == depth {
					reached++
				}
			})
			require.Positive(t, reached)
		})
	}
}

// archiveNested has a line of sub-agents archived, brought back, archived and purged, and returns
// how many there were: a crash ends a line.
func archiveNested(h *harness) int {
	spawnedOver(h, topKey, agent.Task{Text: "down"})
	h.Pass(1500 * time.Millisecond)
	var line []session.Key
	for _, r := range h.Runs() { // those above come first
		line = append(line, r.Key)
	}
	h.Pass(3 * time.Hour)
	require.Empty(h.T(), h.Runs())
	err := bringBack(h, line, "more")
	if errors.Is(err, agent.ErrEnded) { // the process has died, and with it a run above
		err = bringBack(h, line[:1], "more, again")
	}
	require.NoError(h.T(), err)
	page, err := pageOf(h, line[0])
	require.NoError(h.T(), err)
	require.False(h.T(), page.Archived)
	h.Pass(3 * time.Hour)
	require.Empty(h.T(), h.Runs())
	for _, key := range line {
		page, err := pageOf(h, key)
		if !errors.Is(err, agent.ErrNotFound) { // what never began has no transcript
			require.NoError(h.T(), err)
			require.True(h.T(), page.Archived)
		}
	}
	h.Pass(26 * time.Hour)
	for i, key := range line {
		_, err := pageOf(h, key)
		if i == 0 {
			require.NoError(h.T(), err, "its key is known for seven days")
			continue
		}
		require.ErrorIs(h.T(), err, agent.ErrNotFound)
		require.ErrorIs(h.T(), h.Do(func(rt *agent.Runtime) error {
			return rt.Session(key).Revive(h.Context())
		}), agent.ErrNotFound)
	}
	return len(line)
}

// bringBack brings sessions back from the archive, the topmost first, each of which works on a
// message from then on.
func bringBack(h *harness, line []session.Key, text string) error {
	for _, key := range line {
		err := h.Do(func(rt *agent.Runtime) error {
			return rt.Session(key).Revive(h.Context())
		})
		if err == nil {
			err = h.Do(func(rt *agent.Runtime) error {
				m := agent.Incoming{ID: text + key.String(), Text: text}
				return errorOf(rt.Session(key).Post(h.Context(), m))
			})
		}
		if err != nil {
			return err
		}
		h.Pass(time.Second)
	}
	return nil
}

// pageOf returns the history of a session, over crashes.
func pageOf(h *harness, key session.Key) (page agent.HistoryPage, err error) {
	err = h.Do(func(rt *agent.Runtime) (err error) {
		page, err = rt.Session(key).History(h.Context(), agent.HistoryQuery{})
		return err
	})
	return page, err
}

// running runs a Runtime while f runs.
func running(t *testing.T, cfg agent.Config, f func(rt *agent.Runtime)) {
	t.Helper()
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- rt.Run(context.WithoutCancel(t.Context())) }()
	f(rt)
	require.NoError(t, errors.Join(rt.Shutdown(t.Context()), <-done))
}

// A revived sub-agent that was to be deleted stays as long as the others.
func TestReviveOfADeletedSession(t *testing.T) {
	cfg := configAnswering(asText)
	cfg.Rules.Subagents.ArchiveAfter = policy.Off
	agenttest.Run(t, cfg, nil, func(h *harness) {
		c, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x", Cleanup: agent.CleanupDelete})
		require.NoError(t, err)
		h.Pass(time.Minute)
		require.Empty(t, h.Runs())
		require.NoError(t, c.Session().Revive(h.Context()))
		h.PostTo(c.Key(), "more")
		h.Pass(100 * time.Hour)
		require.Len(t, h.Runs(), 1)
	})
}
