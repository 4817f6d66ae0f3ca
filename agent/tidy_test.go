package agent_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A tidyPlace is a work directory that notes when it is looked for.
type tidyPlace struct {
	base string

	mu    sync.Mutex
	asked int
	next  func(asked int) // called before the answer; nil: nothing
}

func (p *tidyPlace) dir(string) string {
	p.mu.Lock()
	p.asked++
	n, next := p.asked, p.next
	p.mu.Unlock()
	if next != nil {
		next(n)
	}
	return p.base
}

// watch counts from now on, and has f called each time.
func (p *tidyPlace) watch(f func(asked int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked, p.next = 0, f
}

func (p *tidyPlace) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// The archive of a sub-agent waits for three attempts to remove its files from the work directory,
// and goes on without them then, which is told of as an error. Another archive of it, after a
// revival, waits for three again.
func TestArchiveWaitsForThreeTidies(t *testing.T) {
	for name, c := range map[string]struct {
		mend   int // before which attempt the directory is in order
		tries  int
		errors int
	}{
		"the first one":   {mend: 1, tries: 1},
		"the second one":  {mend: 2, tries: 2},
		"the third one":   {mend: 3, tries: 3},
		"one after these": {mend: 4, tries: 3, errors: 1},
	} {
		t.Run(name, func(t *testing.T) {
			place, log := &tidyPlace{base: makeTree(t)}, &records{Handler: slog.DiscardHandler}
			ours, held := filepath.Join(place.base, ".offshoot"), filepath.Join(place.base, "held")
			cfg := attachConfig(place.base)
			cfg.WorkDir, cfg.Logger = place.dir, slog.New(log)
			cfg.Rules.Attachments.Retain = true
			cfg.Rules.Subagents.ArchiveAfter = time.Minute
			agenttest.Run(t, cfg, nil, func(h *harness) {
				child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
					Text: "x", Attachments: attaching("a", "one"),
				})
				require.NoError(t, err)
				_, err = child.Wait(h.Context())
				require.NoError(t, err)
				for round := 1; round <= 2; round++ {
					// A link on the way is nothing that may be followed.
					require.NoError(t, os.Rename(ours, held))
					require.NoError(t, os.Symlink("held", ours))
					place.watch(func(asked int) {
						if asked == c.mend {
							require.NoError(t, errors.Join(os.Remove(ours), os.Rename(held, ours)))
						}
					})
					h.Pass(3 * time.Hour)
					require.Equal(t, c.tries, place.count())
					_, err = child.Info(h.Context())
					require.ErrorIs(t, err, agent.ErrArchived)
					stay := strings.Count(log.list.String(), "stay in its work directory")
					require.Equal(t, round*c.errors, stay)
					if c.errors == 0 {
						require.Empty(t, listFiles(os.DirFS(place.base)))
						return
					}
					require.NoError(t, errors.Join(os.Remove(ours), os.Rename(held, ours)))
					require.Contains(t, listFiles(os.DirFS(place.base)), "a=one")
					place.watch(nil)
					require.NoError(t, child.Session().Revive(h.Context()))
				}
			})
		})
	}
}

// A work directory that does not answer costs an archive three attempts of DeliverTimeout, and no
// other chat anything. A caller who waits for the archive leaves with its ctx. Shutdown names the
// sub-agent while the function has not returned, and the next process archives what this one had
// not.
func TestWorkDirThatHangsAtAnArchive(t *testing.T) {
	for name, c := range map[string]struct {
		after  time.Duration // of the shutdown; 0: while the first attempt runs
		tries  int
		errors int
	}{
		"three attempts": {3 * time.Hour, 3, 1},
		"a shutdown":     {0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			place, log := &tidyPlace{base: makeTree(t)}, &records{Handler: slog.DiscardHandler}
			cfg := attachConfig(place.base)
			cfg.Store, cfg.Logger = session.NewMemory(), slog.New(log)
			cfg.WorkDir = func(id string) string {
				if id == "worker" {
					return place.dir(id)
				}
				return place.base
			}
			cfg.Rules.Agents = []policy.Agent{{ID: "main"}, {ID: "worker"}}
			cfg.Rules.Subagents.AllowAgents = []string{"worker"}
			cfg.Rules.Attachments.Retain = true
			synctest.Test(t, func(t *testing.T) {
				rt, err := agent.Open(t.Context(), cfg)
				require.NoError(t, err)
				over := make(chan error, 1)
				go func() { over <- rt.Run(t.Context()) }()
				child, err := agent.Spawn[string](t.Context(), rt.Session(topKey), agent.Task{
					Text: "x", Agent: "worker", Attachments: attaching("a", "one"),
				})
				require.NoError(t, err)
				_, err = child.Wait(t.Context())
				require.NoError(t, err)
				release := make(chan struct{})
				free := sync.OnceFunc(func() { close(release) })
				defer free()
				place.watch(func(int) { <-release })
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				err = rt.DeleteSession(ctx, child.Key())
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, time.Second, time.Since(began))
				q := agent.Incoming{Text: "y"}
				other, err := rt.Session(goodChat).PostAndWait(t.Context(), q)
				require.NoError(t, err)
				require.NotEmpty(t, other.Text)
				time.Sleep(c.after)
				synctest.Wait()
				require.Equal(t, c.tries, place.count())
				stay := strings.Count(log.list.String(), "stay in its work directory")
				require.Equal(t, c.errors, stay)
				_, err = child.Info(t.Context())
				require.Equal(t, c.errors == 1, errors.Is(err, agent.ErrArchived), "%v", err)
				began = time.Now()
				var still *agent.StillRunningError
				gone, end := context.WithCancel(t.Context())
				end()
				require.ErrorAs(t, rt.Shutdown(gone), &still)
				require.Equal(t, []session.Key{child.Key()}, slices.Compact(still.Sessions))
				require.LessOrEqual(t, time.Since(began), 12*time.Second)
				free()
				if err := <-over; err != nil {
					t.Log(err) // the one of Shutdown, if that has not told it
				}
				place.watch(nil)
				running(t, cfg, func(rt *agent.Runtime) {
					time.Sleep(time.Hour)
					_, err = rt.Session(child.Key()).FindRun(t.Context(), child.ID())
					require.ErrorIs(t, err, agent.ErrArchived)
				})
				require.Equal(t, c.errors == 0, len(listFiles(os.DirFS(place.base))) == 0)
			})
		})
	}
}

// A Focus of a sub-agent whose files are being removed is bound at once if it has ended and stays:
// the next run waits for the removal and finds its files again. While it is being archived, Focus
// is refused before anything exists, and the conversation stays with the session that it has.
func TestFocusDuringATidy(t *testing.T) {
	for name, archive := range map[string]bool{"after a run": false, "of an archive": true} {
		t.Run(name, func(t *testing.T) {
			place, chat := &tidyPlace{base: makeTree(t)}, agenttest.NewFakeChannel("discord")
			var begun, release chan struct{}
			hang := func(asked int) {
				if asked == 1 {
					close(begun)
					<-release
				}
			}
			var mu sync.Mutex
			var found []string
			cfg := attachConfig(place.base)
			cfg.WorkDir = place.dir
			cfg.Rules.Subagents.ArchiveAfter = time.Minute
			cfg.Rules.Attachments.Retain = archive // then the archive alone removes them
			cfg.Runner = agent.RunnerFunc(
				func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
					mu.Lock()
					defer mu.Unlock()
					if tn.Run != "" {
						found = append(found, listFiles(os.DirFS(place.base)))
					}
					if len(found) == 1 && tn.Run != "" {
						place.watch(hang)
					}
					return agent.Result{Text: "ok"}, nil
				})
			chat.Connect(&cfg)
			synctest.Test(t, func(t *testing.T) {
				begun, release = make(chan struct{}), make(chan struct{})
				running(t, cfg, func(rt *agent.Runtime) {
					main := rt.Session(topKey)
					_, err := main.Post(t.Context(), agent.Incoming{Text: "x"})
					require.NoError(t, err)
					at := chat.At("general", "7")
					chat.Set(at, agent.ThreadOpen)
					q := agent.FocusRequest{Conversation: at, Session: topKey, By: "ann"}
					_, err = rt.Focus(t.Context(), q)
					require.NoError(t, err)
					child, err := main.Spawn(t.Context(), agent.Task{
						Text: "x", Attachments: attaching("a", "one"),
					})
					require.NoError(t, err)
					<-begun
					q.Session = child.Key()
					bound, err := rt.Focus(t.Context(), q)
					if archive {
						require.ErrorIs(t, err, agent.ErrArchived)
						q.Conversation, q.NewThread = chat.At("general", ""), true
						_, err = rt.Focus(t.Context(), q)
						require.ErrorIs(t, err, agent.ErrArchived)
						require.Empty(t, chat.Threads())
						require.Equal(t, []session.Route{at}, boundTo(t, rt, topKey))
						close(release)
						time.Sleep(time.Minute)
						require.Empty(t, listFiles(os.DirFS(place.base)))
						return
					}
					require.NoError(t, err)
					require.Equal(t, child.Key(), bound.Target)
					receipt, err := chat.Write(t.Context(), rt, at, "ann", "and now?")
					require.NoError(t, err)
					require.Equal(t, child.Key(), receipt.Session)
					synctest.Wait()
					mu.Lock()
					require.Len(t, found, 1, "the turn waits for the removal")
					mu.Unlock()
					close(release)
					time.Sleep(time.Minute)
					mu.Lock()
					defer mu.Unlock()
					require.Equal(t, []string{found[0], found[0]}, found)
					require.NotEmpty(t, found[1])
					require.Empty(t, listFiles(os.DirFS(place.base)))
					require.Equal(t, []string{"ok"}, chat.Said(at))
				})
			})
		})
	}
}
