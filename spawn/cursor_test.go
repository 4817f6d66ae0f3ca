package spawn_test

import (
	"context"
	"encoding/json"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Behind a cursor comes everything since, or one gap when a snapshot has replaced it, and then
// everything; from a journal that had other entries there, a gap, too.
func TestEventsBehindACursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		s := openSupervisor(t, echoConfig(store))
		all, end := collect(t, s, spawn.EventQuery{Root: topKey})
		defer end()
		tell(t, s, topKey, 3)
		old := all()[4].Cursor
		behind, end := collect(t, s, spawn.EventQuery{After: []spawn.Cursor{old}})
		require.Equal(t, all()[5:], behind())
		end()

		tell(t, s, topKey, 400) // more than a thousand facts
		require.Len(t, all(), 1+4*403)
		behind, end = collect(t, s, spawn.EventQuery{Root: topKey, After: []spawn.Cursor{old}})
		got := behind()
		require.Equal(t, spawn.EventGap, got[0].Kind)
		require.Positive(t, got[0].State.Sessions[0].Turn)
		require.NotEmpty(t, got[1:])
		require.Equal(t, all()[len(all())-len(got)+1:], got[1:])
		tell(t, s, topKey, 1)
		require.Len(t, behind(), len(got)+4)
		end()

		elsewhere := openSupervisor(t, echoConfig(session.NewMemory()))
		tell(t, elsewhere, topKey, 3)
		for _, at := range []spawn.Cursor{old, got[len(got)-1].Cursor} {
			behind, end = collect(t, elsewhere, spawn.EventQuery{After: []spawn.Cursor{at}})
			require.NotEmpty(t, behind())
			tell(t, elsewhere, topKey, 1)
			require.Contains(t, []int{1 + 4, 1 + 4 + 2*4}, len(behind()), "%v", lines(behind()))
			require.Equal(t, spawn.EventGap, behind()[0].Kind)
			for _, e := range behind()[1:] {
				require.NotEqual(t, spawn.EventGap, e.Kind)
			}
			end()
		}
	})
}

// The text of a cursor goes both ways, and another text is an error.
func TestCursorText(t *testing.T) {
	for _, text := range []string{
		"", "0-00000000@agent:main:main", "17-0a1b2c3d@agent:main:main", "17-0a1b2c3d-0@global",
		"18446744073709551615-ffffffff-4294967294@agent:main:telegram:direct:peer1",
	} {
		var c spawn.Cursor
		require.NoError(t, c.UnmarshalText([]byte(text)), text)
		require.Equal(t, text, c.String())
		require.Equal(t, text == "", c.IsZero())
		data, err := json.Marshal(c)
		require.NoError(t, err)
		back := spawn.Beginning(topKey)
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, c, back)
	}
	for _, text := range []string{
		"17", "@", "17-0a1b2c3d", "17-0a1b2c3d@", "-1-0a1b2c3d@agent:main:main",
		"017-0a1b2c3d@agent:main:main", "17-0A1B2C3D@agent:main:main", "17-a@agent:main:main",
		"17-0a1b2c3d-x@agent:main:main", "17-0a1b2c3d-4294967295@agent:main:main",
		"17-0a1b2c3d-1-2@agent:main:main", "17-0a1b2c3d@agent:main:subagent:x",
		"17-0a1b2c3d@agent:main:main ", "99999999999999999999-0a1b2c3d@agent:main:main",
	} {
		c := spawn.Beginning(topKey)
		var invalid *spawn.InputError
		require.ErrorAs(t, c.UnmarshalText([]byte(text)), &invalid, text)
		require.Equal(t, "cursor", invalid.Field)
		require.Equal(t, spawn.Beginning(topKey), c, text)
	}
}

// FuzzCursor reads texts of cursors: what is taken is canonical.
func FuzzCursor(f *testing.F) {
	f.Add("17-0a1b2c3d-4@agent:main:main")
	f.Add("0-00000000@global")
	f.Fuzz(func(t *testing.T, text string) {
		var c spawn.Cursor
		if c.UnmarshalText([]byte(text)) == nil {
			require.Equal(t, text, c.String())
		} else {
			require.True(t, c.IsZero())
		}
	})
}

// hookedRead is a Journal that calls a function, once, before a watcher reads a log or after that.
type hookedRead struct {
	session.Journal
	before, after atomic.Pointer[func()]
}

func (j *hookedRead) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		watches := ctx.Value(watching{}) != nil
		if f := j.before.Load(); watches && f != nil && j.before.CompareAndSwap(f, nil) {
			(*f)()
		}
		for e, err := range j.Journal.Read(ctx, root, after) {
			if !yield(e, err) {
				return
			}
		}
		if f := j.after.Load(); watches && f != nil && j.after.CompareAndSwap(f, nil) {
			(*f)()
		}
	}
}

// What is recorded while a watcher reads the journal is shown once: if the journal has it already,
// and if it comes right after the last entry that was read.
func TestReplayMeetsLiveEvents(t *testing.T) {
	for name, q := range map[string]spawn.EventQuery{
		"behind a cursor": {Root: topKey, After: []spawn.Cursor{spawn.Beginning(topKey)}},
		"of all trees":    {After: []spawn.Cursor{spawn.Beginning(topKey)}},
		"from the state":  {Root: topKey},
	} {
		for _, when := range []string{"before", "after"} {
			t.Run(name+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := session.NewMemory()
					journal := &hookedRead{Journal: store.Journal}
					first, err := spawn.Open(t.Context(), echoConfig(store))
					require.NoError(t, err)
					ran := make(chan error, 1)
					go func() { ran <- first.Run(context.WithoutCancel(t.Context())) }()
					tell(t, first, topKey, 2)
					require.NoError(t, first.Shutdown(t.Context()))
					require.NoError(t, <-ran)
					s := openSupervisor(t, echoConfig(&session.Store{
						Journal: journal, Transcripts: store.Transcripts,
					}))
					act := func() {
						in := spawn.Incoming{Text: "meanwhile"}
						assert.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, in)))
						assert.NoError(t, s.Idle(t.Context(), topKey))
					}
					if when == "before" {
						journal.before.Store(&act)
					} else {
						journal.after.Store(&act)
					}
					seen, end := collect(t, s, q)
					defer end()
					seen()
					tell(t, s, topKey, 1)
					all, err := s.HistoryOf(topKey, store.Journal.Read(t.Context(), topKey, 0))
					require.NoError(t, err)
					if q.After != nil {
						require.Equal(t, all, seen())
						return
					}
					n := 2
					if journal.before.Load() != nil || journal.after.Load() != nil {
						n = 1 // the tree was in memory, and did not have to be read
					}
					require.Equal(t, kinds("snapshot of 1", n), lines(seen()))
					require.Equal(t, all[len(all)-4*n:], seen()[1:])
				})
			})
		}
	}
}

// A shutdown while a journal is read does not wait for the loop. It costs the stream nothing of the
// other trees, and leaves no hole in the tree that is read: the rest of that is behind its last
// cursor. So does one in which the loop goes on before the end, because something else hangs.
func TestShutdownWhileAJournalIsRead(t *testing.T) {
	for _, hangs := range []time.Duration{0, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := session.NewMemory()
			cfg := echoConfig(store)
			echo := cfg.Runner
			cfg.Runner = runnerFunc(
				func(ctx context.Context, in *spawn.TurnInput) (spawn.TurnResult, error) {
					if in.Session.Key == chatKey(2) {
						time.Sleep(hangs) // it does not heed its ctx
					}
					return echo.RunTurn(ctx, in)
				})
			cfg.Grace = 10 * time.Second
			s := openSupervisor(t, cfg)
			tell(t, s, topKey, 2)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			events := s.Events(ctx, spawn.EventQuery{
				After: []spawn.Cursor{spawn.Beginning(topKey)},
			})
			goOn, ended := make(chan struct{}), make(chan struct{})
			var own, other []spawn.TreeEvent
			go func() {
				defer close(ended)
				for e, err := range events {
					assert.NoError(t, err)
					if e.Session != topKey {
						other = append(other, e)
					} else if own = append(own, e); len(own) == 3 {
						<-goOn
					}
				}
			}()
			synctest.Wait()
			tell(t, s, topKey, 1)
			tell(t, s, chatKey(1), 3)
			if hangs > 0 {
				in := spawn.Incoming{Text: "hang"}
				require.NoError(t, errorOf(s.Post(t.Context(), chatKey(2), chatKey(2), in)))
				synctest.Wait()
			}
			down, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			if hangs > 0 {
				time.AfterFunc(hangs/2, func() { close(goOn) })
			}
			require.NoError(t, s.Shutdown(down))
			require.LessOrEqual(t, time.Since(began), max(hangs, time.Second))
			if hangs == 0 {
				close(goOn)
			}
			<-ended
			require.GreaterOrEqual(t, len(other), 13)
			require.Equal(t, kinds("snapshot of 1", 3), lines(other)[:13])
			all, err := s.HistoryOf(topKey, store.Journal.Read(t.Context(), topKey, 0))
			require.NoError(t, err)
			require.Equal(t, lines(all[:3]), lines(own))
		})
	}
}
