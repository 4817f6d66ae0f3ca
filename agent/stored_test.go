package agent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// A directory that an earlier version has written opens, says the same as ever, and goes on.
// What is in the directories of testdata/state-v1 is described in the README.md beside them.
func TestStoredState(t *testing.T) {
	for name, long := range map[string]session.Key{
		"managed": session.Must(session.DirectKey("main", "telegram", "7")),
		"caller":  session.Must(session.MainKey("main")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStored(t, filepath.Join("testdata", "state-v1", name))
				time.Sleep(24 * time.Hour) // what was written ends 4 hours after a bubble begins
				s.look()
				before, archived, bindings := s.runs(), s.archived(), s.bindings()
				s.live(policy.Off, func(rt *agent.Runtime) {
					s.goesOn(rt, long)
					s.repeats(rt, long)
				})
				s.section("trees after another process")
				s.trees((*stored).outcome)
				s.ended(before)
				s.live(time.Hour, func(rt *agent.Runtime) {
					time.Sleep(2 * time.Hour)
					s.idle(rt)
				})
				s.atRest()
				require.Equal(t, bindings, s.bindings())
				for path, data := range archived {
					now, err := os.ReadFile(path)
					require.NoError(t, err)
					assert.Equal(t, data, now, path)
				}
				s.golden()
			})
		})
	}
}

// stored is a copy of a directory that an earlier version has written.
type stored struct {
	t      *testing.T
	source string
	dir    string
	text   strings.Builder // what the golden file holds

	mu    sync.Mutex
	got   map[string]int // how often each key of a delivery or a reply was accepted
	lines []string       // what was accepted
}

func newStored(t *testing.T, source string) *stored {
	s := &stored{t: t, source: source, dir: t.TempDir(), got: make(map[string]int)}
	require.NoError(t, os.CopyFS(s.dir, os.DirFS(source)))
	return s
}

func (s *stored) section(name string) { fmt.Fprintf(&s.text, "## %s\n\n", name) }

// view calls f with a Store that cannot write.
func (s *stored) view(f func(store *session.Store)) {
	store, err := dirstore.View(s.dir)
	require.NoError(s.t, err)
	f(store)
	require.NoError(s.t, store.Close())
}

// roots returns the top-level sessions on record in the order of their keys.
func (s *stored) roots(store *session.Store) (list []session.Key) {
	for head, err := range store.Journal.Roots(s.t.Context(), session.RootQuery{}) {
		require.NoError(s.t, err)
		if head.Root != session.BindingsRoot() {
			list = append(list, head.Root)
		}
	}
	slices.SortFunc(list, func(a, b session.Key) int { return cmp.Compare(a.String(), b.String()) })
	return list
}

// look writes down what the directory says before anything opens it for writing.
func (s *stored) look() {
	s.section("files")
	for file, err := range dirstore.Verify(s.t.Context(), s.dir) {
		require.NoError(s.t, err)
		fmt.Fprintf(&s.text, "%s: %d bytes, %d parts, %d torn\n",
			filepath.ToSlash(file.Path), file.Bytes, file.Parts, file.Torn)
	}
	s.text.WriteByte('\n')
	s.section("trees as they are stored")
	s.trees((*stored).run)
	s.section("bindings")
	for _, b := range s.bindings() {
		fmt.Fprintf(&s.text, "%+v to %s by %s, label %q\n", b.Conversation, b.Target, b.By, b.Label)
		fmt.Fprintf(&s.text, "  bound %s, touched %s, idle %s, max age %s\n",
			timeText(b.Bound), timeText(b.Touched), b.Idle, b.MaxAge)
	}
	s.text.WriteByte('\n')
}

// bindings returns the thread bindings that have not expired.
func (s *stored) bindings() (list []binding.Binding) {
	s.view(func(store *session.Store) {
		bindings, err := binding.Open(s.t.Context(), store.Journal)
		require.NoError(s.t, err)
		list = bindings.All(time.Now())
	})
	return list
}

// trees writes down what View returns for each tree, and what its transcripts hold.
func (s *stored) trees(run func(s *stored, r spawn.RunInfo)) {
	s.view(func(store *session.Store) {
		for _, root := range s.roots(store) {
			require.NoError(s.t, spawntest.Audit(store.Journal.Read(s.t.Context(), root, 0)), root)
			v, err := spawn.View(root, store.Journal.Read(s.t.Context(), root, 0))
			require.NoError(s.t, err, root)
			s.tree(store, v, run)
		}
	})
}

func (s *stored) tree(
	store *session.Store, v spawn.TreeView, run func(s *stored, r spawn.RunInfo),
) {
	fmt.Fprintf(&s.text, "%s %s, epoch %d, %d runs ever, session %s\n",
		v.Root, v.Status, v.Epoch, v.Total, v.SessionID)
	s.transcript(store, session.Ref{Key: v.Root, SessionID: v.SessionID})
	for _, r := range v.Runs {
		run(s, r)
		s.transcript(store, session.Ref{Key: r.Key, SessionID: r.SessionID})
	}
	for _, u := range v.Unread {
		fmt.Fprintf(&s.text, "  unread %s: %d messages, %d steers, %d completions\n",
			u.Session, u.Messages, u.Steers, u.Completions)
	}
	for _, o := range v.Outbox {
		what := "reply"
		switch {
		case o.Completion != nil:
			what = fmt.Sprintf("completion of %s (%s) %s", o.Completion.Run.Label,
				o.Completion.Run.ID, o.Completion.Run.Status)
		case o.Reply != nil:
			what = fmt.Sprintf("reply %q, failed %t, route %+v",
				o.Reply.Text, o.Reply.Failed, o.Reply.Route)
		}
		fmt.Fprintf(&s.text, "  outbox %s to %s: %s\n", o.Key, o.To, what)
		fmt.Fprintf(&s.text, "    attempt %d, may repeat %t, blocked %s, busy %t, error %q\n",
			o.Attempt, o.MayRepeat, timeText(o.Blocked), o.Busy, o.Error)
	}
	s.text.WriteByte('\n')
}

// run writes down all that is known of a run.
func (s *stored) run(r spawn.RunInfo) {
	s.outcome(r)
	fmt.Fprintf(&s.text, "    depth %d, %s of %s, %d turns, %d children, session %s\n",
		r.Depth, r.Role, r.Agent, r.Turns, r.Children, r.SessionID)
	fmt.Fprintf(&s.text, "    key %s\n    parent %s\n", r.Key, r.Parent)
	fmt.Fprintf(&s.text, "    task %q, model %q, %q, %q, thinking %q, tools %v\n", r.Task,
		r.Model.Requested, r.Model.Resolved, r.Model.Actual, r.Thinking, r.Tools)
	fmt.Fprintf(&s.text, "    created %s, started %s, deadline %s, ended %s\n",
		timeText(r.Created), timeText(r.Started), timeText(r.Deadline), timeText(r.Ended))
	if u := r.Result.Usage; u != (agent.Usage{}) {
		fmt.Fprintf(&s.text, "    usage %d in, %d out, %v dollars, model %q\n",
			u.Input, u.Output, u.Cost, r.Result.Model)
	}
	for _, f := range r.Result.Files {
		fmt.Fprintf(&s.text, "    file %s, %s, %s\n", f.Name, f.Path, f.MediaType)
	}
}

// outcome writes down what a run has come to.
func (s *stored) outcome(r spawn.RunInfo) {
	fmt.Fprintf(&s.text, "  %s %s: %q, json %s, error %q, id %s\n",
		r.Label, r.Status, r.Result.Text, r.Result.JSON, r.Error, r.ID)
}

// transcript writes down what the transcript of a session holds in all.
func (s *stored) transcript(store *session.Store, ref session.Ref) {
	all, kept, calls, raw := 0, 0, 0, 0
	var usage [4]int64 // input, output, read from a cache, written to one
	var last session.Message
	lines := store.Transcripts.Read(s.t.Context(), ref, session.LineQuery{})
	for _, err := range lines {
		require.NoError(s.t, err)
		all++
	}
	for line, err := range session.Committed(lines) {
		require.NoError(s.t, err)
		last = line.Message
		kept++
		calls += len(last.ToolCalls)
		raw += len(last.Raw)
		u := last.Usage
		for i, n := range [4]int64{u.Input, u.Output, u.CacheRead, u.CacheWrite} {
			usage[i] += n
		}
	}
	fmt.Fprintf(&s.text, "    transcript: %d lines, %d kept, %d calls, %d bytes raw, usage %d\n",
		all, kept, calls, raw, usage)
	if kept > 0 {
		fmt.Fprintf(&s.text, "    last of it: %s %q\n", last.Role, shorten(last.Text))
	}
}

func shorten(text string) string { return text[:min(len(text), 40)] }

func timeText(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return at.UTC().Format("01-02T15:04:05.000")
}

// runs returns how the runs stand, by id.
func (s *stored) runs() map[spawn.RunID]spawn.RunInfo {
	runs := make(map[spawn.RunID]spawn.RunInfo)
	s.view(func(store *session.Store) {
		for _, root := range s.roots(store) {
			v, err := spawn.View(root, store.Journal.Read(s.t.Context(), root, 0))
			require.NoError(s.t, err)
			for _, r := range v.Runs {
				runs[r.ID] = r
			}
		}
	})
	return runs
}

// archived returns the contents of the transcripts that have been archived, by path.
func (s *stored) archived() map[string][]byte {
	paths, err := filepath.Glob(filepath.Join(s.dir, "sessions", "*", "*.deleted.*"))
	require.NoError(s.t, err)
	require.NotEmpty(s.t, paths)
	files := make(map[string][]byte)
	for _, path := range paths {
		files[path], err = os.ReadFile(path)
		require.NoError(s.t, err)
	}
	return files
}

// live opens the directory for writing, runs it while f runs, and closes it.
func (s *stored) live(archiveAfter time.Duration, f func(rt *agent.Runtime)) {
	store, err := dirstore.Open(s.dir)
	require.NoError(s.t, err)
	cfg := agent.Config{Store: store, Runner: agent.RunnerFunc(s.answer)}
	cfg.Rules = rulesForDepth(3)
	cfg.Rules.Agents = []policy.Agent{{ID: "main"}, {ID: "ops"}}
	cfg.Rules.Subagents.ArchiveAfter = archiveAfter
	if filepath.Base(s.source) == "caller" {
		cfg.Deliver = s.deliver
	} else {
		cfg.Reply = s.reply
	}
	rt, err := agent.Open(s.t.Context(), cfg)
	require.NoError(s.t, err)
	done := make(chan error, 1)
	go func() { done <- rt.Run(context.WithoutCancel(s.t.Context())) }()
	synctest.Wait()
	f(rt)
	require.NoError(s.t, rt.Shutdown(s.t.Context()))
	require.NoError(s.t, <-done)
	require.NoError(s.t, store.Close())
}

// answer is a Runner that takes another time for each session, so that nothing happens at once.
func (s *stored) answer(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(tn.Session.Key.String()))
	work := time.Second + time.Duration(h.Sum32()%60_000)*time.Millisecond
	if err := pause(ctx, work); err != nil {
		return agent.Result{}, err
	}
	if tn.Schema != nil {
		data := json.RawMessage(`{"title":"Late","pages":1}`)
		return agent.Result{Text: "typed", JSON: data}, nil
	}
	return textResult(fmt.Sprintf("turn %d, retry %t, %d of %d messages are new",
		tn.N, tn.Retry, tn.New, len(tn.Messages)))
}

func (s *stored) deliver(_ context.Context, d agent.Delivery) error {
	s.accept(d.Key, fmt.Sprintf("%s to %s: %s %s, attempt %d, may repeat %t: %q",
		d.Key, d.To, d.Completion.Run.Label, d.Completion.Run.Status, d.Attempt, d.MayRepeat,
		announce.NewEvent(d.Completion).ForPerson()))
	return nil
}

func (s *stored) reply(_ context.Context, d agent.Delivery) error {
	s.accept(d.Key, fmt.Sprintf(
		"%s to %s, route %+v, failed %t, attempt %d, may repeat %t: %q",
		d.Key, d.To, d.Reply.Route, d.Reply.Failed, d.Attempt, d.MayRepeat, d.Reply.Text))
	return nil
}

func (s *stored) accept(key, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got[key]++
	s.lines = append(s.lines, line)
}

// idle waits until nothing is under way in any tree.
func (s *stored) idle(rt *agent.Runtime) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*24*time.Hour)
	defer cancel()
	s.view(func(store *session.Store) {
		for _, root := range s.roots(store) {
			require.NoError(s.t, rt.Session(root).Idle(ctx), root)
		}
	})
}

// goesOn checks that everything owed is delivered, and that what is blocked can be retried and
// dismissed.
func (s *stored) goesOn(rt *agent.Runtime, long session.Key) {
	t := s.t
	s.idle(rt)
	blocked, err := rt.Blocked(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, blocked)
	for _, o := range blocked {
		require.Equal(t, long, o.To)
		require.NotContains(t, s.got, o.Key)
	}
	for _, o := range blocked[1:] {
		require.NoError(t, rt.Dismiss(t.Context(), o.Key))
	}
	require.NoError(t, rt.Retry(t.Context(), blocked[0].Key))
	s.idle(rt)
	require.Contains(t, s.got, blocked[0].Key)
	s.accepted("delivered by another process")
}

// accepted writes down what has been delivered since it was last called: everything once.
func (s *stored) accepted(section string) {
	for key, n := range s.got {
		assert.Equal(s.t, 1, n, "%s came more than once", key)
	}
	s.section(section)
	slices.Sort(s.lines)
	for _, line := range s.lines {
		fmt.Fprintln(&s.text, line)
	}
	s.text.WriteByte('\n')
	s.lines = nil
}

// repeats checks that keys of spawns and ids of messages are still known, and that a session
// which had become idle answers.
func (s *stored) repeats(rt *agent.Runtime, long session.Key) {
	t, ctx := s.t, s.t.Context()
	s.section("repeated")
	again := func(root session.Key, key string) {
		task := agent.Task{Text: "Again.", Key: key}
		child, err := agent.Spawn[map[string]any](ctx, rt.Session(root), task)
		require.NoError(t, err)
		fmt.Fprintf(&s.text, "spawn key %s of %s: %s\n", key, root, child.ID())
		if _, err := child.Info(ctx); err == nil {
			value, err := child.Wait(ctx)
			fmt.Fprintf(&s.text, "  value %v, error %T\n", value, err)
		}
	}
	if filepath.Base(s.source) == "caller" {
		again(long, "daily") // archived
		again(long, "hangs")
		again(long, "queued")
		s.text.WriteByte('\n')
		s.idle(rt)
		s.accepted("delivered after that")
		return
	}
	again(long, "report") // archived before the snapshot
	for _, key := range []string{"good-1", "typed-1", "typed-2", "q1"} {
		again(session.Must(session.MainKey("main")), key)
	}
	s.text.WriteByte('\n')
	for id, key := range map[string]session.Key{
		"g2": session.Must(session.Parse("agent:main:slack:channel:C1:thread:171.5")),
		"t1": long,
		"p1": session.Must(session.MainKey("main")),
	} {
		require.NoError(t, errorOf(rt.Session(key).Post(ctx, agent.Incoming{ID: id, Text: "Again."})))
	}
	s.idle(rt)
	require.Empty(t, s.lines, "messages that have been posted before change nothing")
	ops := session.Must(session.DirectKey("ops", "telegram", "8"))
	require.NoError(t, errorOf(rt.Session(ops).Post(ctx, agent.Incoming{ID: "new", Text: "Are you there?"})))
	s.idle(rt)
	require.Len(t, s.lines, 1)
	s.accepted("delivered after that")
}

// ended checks how runs have ended that another process had left.
func (s *stored) ended(before map[spawn.RunID]spawn.RunInfo) {
	after := s.runs()
	for id, was := range before {
		now, ok := after[id]
		if !assert.True(s.t, ok, "%s (%s) is gone", was.Label, id) {
			continue
		}
		want := was.Status
		switch was.Status {
		case spawn.StatusQueued, spawn.StatusWaiting:
			want = spawn.StatusOK
		case spawn.StatusRunning:
			want = spawn.StatusInterrupted
		case spawn.StatusStopping:
			want = spawn.StatusCancelled
		default:
			assert.Equal(s.t, was.Result, now.Result, was.Label)
		}
		assert.Equal(s.t, want, now.Status, "%s was %s", was.Label, was.Status)
	}
}

// atRest checks that nothing is left to do, and that all files are sound.
func (s *stored) atRest() {
	require.Empty(s.t, s.runs(), "everything has been archived")
	require.Empty(s.t, s.lines, "a third process has nothing to deliver")
	for _, err := range dirstore.Verify(s.t.Context(), s.dir) {
		require.NoError(s.t, err)
	}
	s.view(func(store *session.Store) {
		for _, root := range s.roots(store) {
			entries := store.Journal.Read(s.t.Context(), root, 0)
			report, err := spawntest.Inspect(entries)
			require.NoError(s.t, err, root)
			require.NoError(s.t, report.AtRest(), root)
			v, err := spawn.View(root, entries)
			require.NoError(s.t, err)
			require.Empty(s.t, v.Outbox, root)
			require.Zero(s.t, v.Due, root)
		}
	})
}

// golden compares what was written down with the golden file beside the directory.
func (s *stored) golden() {
	path, got := s.source+".txt", strings.TrimSpace(s.text.String())+"\n"
	if os.Getenv("OFFSHOOT_UPDATE") == "1" {
		require.NoError(s.t, os.WriteFile(path, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(s.t, err)
	assert.Equal(s.t, string(want), got, "it differs from %s; OFFSHOOT_UPDATE=1 accepts it", path)
}
