package spawn_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// byTask answers with the task, fails if that says so, and waits for what it spawns.
func byTask(_ context.Context, tn *spawn.TurnInput) (out spawn.TurnResult, err error) {
	switch task := tn.Inputs[0].Text; task {
	case "fail":
		return out, errors.New("broken")
	case "long":
		out.Result.Text = longText
	default:
		out.Result = spawn.Result{Text: task, JSON: json.RawMessage(`{"n":1}`), Model: "a/b"}
	}
	return out, nil
}

// outcomeOf spawns under a key and returns the outcome, found and waited for.
func outcomeOf(t *testing.T, s *spawn.Supervisor, q spawn.Request) (found, waited spawn.RunInfo) {
	t.Helper()
	info, err := s.Spawn(t.Context(), topKey, topKey, q)
	require.NoError(t, err)
	ref := info.Ref()
	infos, err := s.Wait(t.Context(), topKey, []spawn.RunRef{ref}, spawn.JoinOptions{})
	require.NoError(t, err)
	found, err = s.Find(t.Context(), topKey, ref)
	require.NoError(t, err)
	again, err := s.Find(t.Context(), topKey, spawn.RunRef{Session: ref.Session})
	require.NoError(t, err)
	require.Equal(t, found, again, "the only run of a session need not be named")
	return found, infos[0]
}

// A2: a run with a key has its outcome for as long as the key is known: after its archive, in the
// next process, and until seven days have passed. One without a key has left the tree.
func TestOutcomeOfAKeyIsKept(t *testing.T) {
	for _, task := range []string{"short", "long", "fail"} {
		t.Run(task, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := session.NewMemory()
				cfg := spawn.Config{Store: store, Runner: runnerFunc(byTask)}
				q := spawn.Request{Task: task, Label: "l", Key: "k", Extra: json.RawMessage(`{}`)}
				open := func() (*spawn.Supervisor, func()) {
					s, ran := runUntil(context.WithoutCancel(t.Context()), t, cfg)
					return s, func() {
						require.NoError(t, s.Shutdown(t.Context()))
						require.NoError(t, <-ran)
					}
				}
				s, end := open()
				found, waited := outcomeOf(t, s, q)
				unkeyed := mustSpawn(t, s, spawn.Request{Task: "short"})
				time.Sleep(2 * time.Hour)
				require.Empty(t, mustRuns(t, s), "all have been archived")
				_, err := s.Find(t.Context(), topKey, spawn.RunRef{Session: unkeyed})
				require.ErrorIs(t, err, spawn.ErrNotFound)
				_, err = s.Find(t.Context(), topKey, spawn.RunRef{Session: found.Key, Run: "other"})
				require.ErrorIs(t, err, spawn.ErrNotFound)
				require.Equal(t, task, found.Task)
				found.Task, waited.Task = "", "" // which is not kept
				for range 3 {
					f, w := outcomeOf(t, s, q)
					require.Equal(t, found, f)
					require.Equal(t, waited, w)
					end()
					s, end = open()
				}
				ref, join := found.Ref(), spawn.JoinOptions{AtLeast: 1, Within: time.Hour}
				more := mustSpawn(t, s, spawn.Request{Task: "short"})
				began := time.Now()
				_, err = s.Wait(
					t.Context(), topKey, []spawn.RunRef{ref, {Session: more}}, join)
				require.NoError(t, err)
				require.Zero(t, time.Since(began))
				time.Sleep(7 * 24 * time.Hour)
				later, err := s.Spawn(t.Context(), topKey, topKey, q)
				require.NoError(t, err)
				require.NotEqual(t, found.ID, later.ID)
				require.NoError(t, spawntest.Audit(store.Journal.Read(t.Context(), topKey, 0)))
				end()
			})
		})
	}
}

// Where the whole of a long result was removed, its beginning is found, and a wait says why it
// cannot have the rest.
func TestOutcomeWhoseFileIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		s := openSupervisor(t, spawn.Config{Store: store, Runner: runnerFunc(byTask)})
		q := spawn.Request{Task: "long", Key: "k"}
		found, _ := outcomeOf(t, s, q)
		time.Sleep(2 * time.Hour)
		ref := session.Ref{Key: found.Key, SessionID: found.SessionID}
		require.NoError(t, store.Files.Remove(t.Context(), ref))
		info, err := s.Spawn(t.Context(), topKey, topKey, q)
		require.NoError(t, err)
		requireHead(t, info.Result)
		_, err = s.Wait(t.Context(), topKey, []spawn.RunRef{info.Ref()}, spawn.JoinOptions{})
		require.ErrorIs(t, err, spawn.ErrUnreadable)
		require.ErrorIs(t, err, session.ErrNotFound)
		require.ErrorContains(t, err, found.Key.String())
	})
}

// A turn finds the outcomes of what was spawned below its own session, and no others.
func TestTurnFindsKeptOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		found := make(chan error, 2)
		var below, beside spawn.RunRef
		run := func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
			switch text := tn.Inputs[0].Text; {
			case text == "boss":
				info, err := tn.Spawn(ctx, spawn.Request{Task: "x", Key: "k"})
				below = info.Ref()
				_, more := tn.Spawn(ctx, spawn.Request{Task: "sleep"})
				tn.Yield(spawn.JoinOptions{})
				return spawn.TurnResult{}, errors.Join(err, more)
			case text == "look":
				for _, ref := range []spawn.RunRef{below, beside} {
					_, err := tn.Find(ctx, ref)
					found <- err
				}
			case text == "sleep":
				time.Sleep(5 * time.Hour)
			}
			return sayText("done")
		}
		s := openSupervisor(t, spawn.Config{
			Runner: runnerFunc(run),
			Rules:  policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 2}},
		})
		boss := mustSpawn(t, s, spawn.Request{Task: "boss"})
		info, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "y", Key: "k"})
		require.NoError(t, err)
		beside = info.Ref()
		time.Sleep(2 * time.Hour)
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, boss, spawn.Incoming{Text: "look"})))
		require.NoError(t, <-found)
		require.ErrorIs(t, <-found, spawn.ErrNotFound)
		time.Sleep(5 * time.Hour)
	})
}
