package agent_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
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

// What stands in a work directory: the files, and at last their list, for the owner alone. They are
// there in each turn, and gone when the end was read, or later by the rules.
func TestAttachmentsInADirectory(t *testing.T) {
	for name, c := range map[string]struct {
		task   agent.Task
		rules  func(*policy.Rules)
		soon   bool // gone when the end was read
		in     string
		stops  bool
		delete bool
	}{
		"kept":        {soon: true},
		"in a folder": {task: agent.Task{Dir: "app"}, soon: true, in: "app"},
		"retained": {
			rules: func(r *policy.Rules) { r.Attachments.Retain = true },
		},
		"deleted, in spite of that": {
			task:  agent.Task{Cleanup: agent.CleanupDelete},
			rules: func(r *policy.Rules) { r.Attachments.Retain = true }, soon: true,
		},
		"stopped": {soon: true, stops: true},
		"deleted by a person": {
			rules: func(r *policy.Rules) { r.Attachments.Retain = true }, delete: true,
		},
		"never archived": {
			rules: func(r *policy.Rules) { r.Subagents.ArchiveAfter = policy.Off }, soon: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			base := makeTree(t, "app/")
			bot := new(waitingBot)
			cfg := attachConfig(base)
			if cfg.Runner = bot; c.rules != nil {
				c.rules(&cfg.Rules)
			}
			c.task.Text, c.task.Announce = "x", true
			c.task.Attachments = attaching("a", "one", "B", "two")
			agenttest.Run(t, cfg, nil, func(h *harness) {
				child, err := agent.Spawn[string](h.Context(), h.Main(), c.task)
				require.NoError(t, err)
				h.Pass(time.Second)
				dir := filepath.Join(base, c.in, ".offshoot", "attachments", string(child.ID()))
				require.Equal(t, ".manifest.json=list,B=two,a=one", listFiles(os.DirFS(dir)))
				checkModes(t, filepath.Join(base, c.in, ".offshoot"))
				manifest, err := os.ReadFile(filepath.Join(dir, ".manifest.json"))
				require.NoError(t, err)
				require.Contains(t, string(manifest), sha("two"))
				require.Contains(t, string(manifest), `"relDir": ".offshoot/attachments/`+
					string(child.ID())+`"`)
				require.Contains(t, bot.prompt, ".offshoot/attachments/"+string(child.ID()))
				if c.stops {
					require.NoError(t, child.Stop(h.Context()))
				} else {
					bot.finish()
				}
				h.Pass(time.Second)
				_, err = os.Stat(dir)
				require.Equal(t, c.soon, errors.Is(err, fs.ErrNotExist), "%v", err)
				if c.delete {
					require.NoError(t, h.Runtime().DeleteSession(h.Context(), child.Key()))
				}
				h.Pass(2 * time.Hour)
				_, err = os.Stat(dir)
				require.ErrorIs(t, err, fs.ErrNotExist)
			})
		})
	}
}

// checkModes requires that the owner alone has what is in a directory.
func checkModes(t *testing.T, dir string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		return
	}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		require.Equal(t, want, info.Mode().Perm(), path)
		return nil
	}))
}

// waitingBot answers the top-level session at once, and a sub-agent when it may finish.
type waitingBot struct {
	mu     sync.Mutex
	prompt string // of the last turn of a sub-agent
	may    bool
}

func (b *waitingBot) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.may = true
}

func (b *waitingBot) mayFinish(prompt string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.prompt = prompt
	return b.may
}

func (b *waitingBot) Run(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
	if tn.Run == "" {
		return textResult("ok")
	}
	for wait := 0; wait < 36_000 && !b.mayFinish(tn.Prompt.String()); wait++ {
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return agent.Result{}, err
		}
	}
	return textResult("done with " + listFiles(tn.Files))
}

// A later run finds the files again in the directory, and they are gone after it, too. What the
// sub-agent has made of them in a turn is there in the next one of the same run.
func TestAttachmentsOfLaterRuns(t *testing.T) {
	base := makeTree(t)
	cfg := attachConfig(base)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
			Text: "x", Attachments: attaching("a", "one"),
		})
		require.NoError(t, err)
		for range 3 {
			got, err := child.Wait(h.Context())
			require.NoError(t, err)
			require.Equal(t, "a=one | .manifest.json=list,a=one", got)
			h.Pass(time.Second)
			require.Empty(t, listFiles(os.DirFS(base)))
			child, err = child.Post(h.Context(), agent.Incoming{Text: "again"})
			require.NoError(t, err)
		}
	})
}

// A program of its own finds the files as any sub-agent does: in Turn.Files, in the directory, and
// in its later runs.
func TestAttachmentsOfAnExternalRuntime(t *testing.T) {
	base := makeTree(t)
	cfg := attachConfig(base)
	cfg.Runners.Runtimes = map[string]agent.ExternalRuntime{"acp": {Runner: cfg.Runner}}
	cfg.Runner = agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
		return textResult("native")
	})
	agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
		var key session.Key
		require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
			child, err := rt.Session(topKey).Spawn(h.Context(), agent.Task{
				Text: "x", Key: "k", Runtime: "acp", Attachments: attaching("a", "one"),
			})
			if err == nil {
				key = child.Key()
			}
			return err
		}))
		for range 2 {
			h.Pass(time.Minute)
			if run := h.Runs()[0]; run.Status == agent.StatusOK {
				require.Equal(h.T(), "a=one | .manifest.json=list,a=one", run.Result.Text)
			}
			h.PostTo(key, "again")
		}
		h.Pass(3 * time.Hour)
		require.Empty(h.T(), listFiles(os.DirFS(base)))
	})
}

// The log has nothing of the files of an agent that has no work directory, at any of their ends:
// nothing was written. It tells of a directory that was there and cannot be found.
func TestNoWordOfAttachmentsWithoutADirectory(t *testing.T) {
	for name, c := range map[string]struct {
		gone func(base string) error // after the first run
		in   string
		said string
	}{
		"no work directory": {},
		"a work directory":  {in: "."},
		"a folder":          {in: "app"},
		"a folder that has gone": {
			in: "app", said: "cannot be found any more",
			gone: func(base string) error { return os.RemoveAll(filepath.Join(base, "app")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			base, log := makeTree(t, "app/"), &records{Handler: slog.DiscardHandler}
			cfg := attachConfig("")
			cfg.Logger = slog.New(log)
			cfg.Rules.Attachments.Retain = c.gone != nil
			cfg.WorkDir = func(string) string {
				if c.in == "" {
					return ""
				}
				return base
			}
			task := agent.Task{Text: "x", Announce: true, Attachments: attaching("a", "one")}
			if c.in == "app" {
				task.Dir = c.in
			}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				child, err := agent.Spawn[string](h.Context(), h.Main(), task)
				require.NoError(t, err)
				_, err = child.Wait(h.Context())
				require.NoError(t, err)
				if c.gone != nil {
					require.NoError(t, c.gone(base))
				}
				time.Sleep(3 * time.Hour) // its archive is due
				synctest.Wait()
			})
			log.mu.Lock()
			defer log.mu.Unlock()
			if c.said != "" {
				require.Contains(t, log.list.String(), c.said)
				return
			}
			require.NotContains(t, log.list.String(), "attachment")
		})
	}
}

// A turn fails, with the reason, where its files cannot be written, and nothing half is left.
func TestDirectoryThatTakesNoAttachments(t *testing.T) {
	for name, prepare := range map[string]func(base string) error{
		"a file in the way": func(base string) error {
			return os.WriteFile(base+"/.offshoot", []byte("x"), 0o600)
		},
		"a link": func(base string) error { return os.Symlink("elsewhere", base+"/.offshoot") },
		"a link below": func(base string) error {
			return errors.Join(os.Mkdir(base+"/.offshoot", 0o700),
				os.Symlink("../elsewhere", base+"/.offshoot/attachments"))
		},
		"a link out": func(base string) error { return os.Symlink("..", base+"/.offshoot") },
		"others may write": func(base string) error {
			if runtime.GOOS == "windows" {
				return os.WriteFile(base+"/.offshoot", nil, 0o600)
			}
			return errors.Join(os.Mkdir(base+"/.offshoot", 0o700), os.Chmod(base+"/.offshoot", 0o770))
		},
	} {
		t.Run(name, func(t *testing.T) {
			base := makeTree(t, "elsewhere/keep")
			require.NoError(t, prepare(base))
			before := listFiles(os.DirFS(base))
			agenttest.Run(t, attachConfig(base), nil, func(h *harness) {
				child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
					Text: "x", Attachments: attaching("a", "one"),
				})
				require.NoError(t, err)
				_, err = child.Wait(h.Context())
				require.ErrorContains(t, err, "attachments of")
				require.ErrorContains(t, err, `the directory ".offshoot`)
				h.Pass(3 * time.Hour)
				require.Equal(t, before, listFiles(os.DirFS(base)))
			})
		})
	}
}

// A turn that was given up while its directory was looked for writes nothing when that is found at
// last: the sub-agent may have been archived, and what is written behind that stays for ever.
func TestLateTurnWritesNoAttachments(t *testing.T) {
	base := makeTree(t)
	cfg := attachConfig(base)
	cfg.Grace, cfg.Rules.Subagents.ArchiveAfter = time.Second, time.Minute
	var release chan struct{} // of the bubble
	var mu sync.Mutex
	asked := 0
	cfg.WorkDir = func(string) string {
		mu.Lock()
		asked++
		late := asked == 2 // by the turn, after the spawn
		mu.Unlock()
		if late {
			<-release
		}
		return base
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		release = make(chan struct{})
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
			Text: "x", Attachments: attaching("a", "one"),
		})
		require.NoError(t, err)
		h.Pass(time.Second)
		var left *agent.StillRunningError
		require.ErrorAs(t, child.Stop(h.Context()), &left)
		h.Pass(time.Hour)
		_, err = child.Info(h.Context())
		require.ErrorIs(t, err, agent.ErrNotFound, "it is archived")
		close(release)
		h.Pass(time.Hour)
		require.Empty(t, listFiles(os.DirFS(base)))
	})
}
