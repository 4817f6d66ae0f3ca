package agent_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// A directory that an earlier version has written with what is of version 2 (later runs, bindings,
// archives, forks, deletions, resets, waits) means what it meant to that version, which has written
// that down, and goes on. See the README.md beside the directories.
func TestStoredStateOfVersion2(t *testing.T) {
	for _, name := range []string{"receipts", "threads", "today"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &storedTwo{
					stored: newStored(t, filepath.Join("testdata", "state-v2", name)),
					chat:   agenttest.NewFakeChannel("discord"),
				}
				time.Sleep(6 * time.Hour) // what was written ends 5 hours after a bubble begins
				for _, thread := range []string{"", "thread-1"} {
					w.chat.Set(w.chat.At("general", thread), agent.ThreadOpen)
				}
				written, err := os.ReadFile(w.source + ".written.txt")
				require.NoError(t, err)
				require.Equal(t, string(written), describeStored(t, w.dir))
				w.look()
				before := w.runs()
				w.live(func(rt *agent.Runtime) {
					w.idle(rt)
					w.ended(before)
					w.sessions(rt)
					w.keys(rt)
					w.conversations(rt)
				})
				w.atRestButBound()
				w.golden()
			})
		})
	}
}

// storedTwo is a copy of a directory of version 2.
type storedTwo struct {
	*stored

	chat *agenttest.FakeChannel
}

// live opens the directory for writing, as the bot that has written it, and runs it while f runs.
func (w *storedTwo) live(f func(rt *agent.Runtime)) {
	store, err := dirstore.Open(w.dir)
	require.NoError(w.t, err)
	cfg := configWith(storedAnswer)
	cfg.Store, cfg.Reply, cfg.Rules = store, w.reply, rulesForDepth(3)
	cfg.Rules.Subagents.ArchiveAfter = policy.Off
	w.chat.Connect(&cfg)
	lives(w.t, cfg, func(rt *agent.Runtime) {
		synctest.Wait()
		f(rt)
	})
	require.NoError(w.t, store.Close())
}

// storedAnswer is a Runner that answers with the last thing that it is told.
func storedAnswer(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
	last := ""
	for _, m := range tn.Messages[len(tn.Messages)-tn.New:] {
		if strings.HasPrefix(m.Text, "say ") {
			last = m.Text
		}
	}
	return textResult(strings.TrimSpace(fmt.Sprintf("turn %d, retry %t %s", tn.N, tn.Retry, last)))
}

// sessions writes down the runs of each sub-agent, and sends it a message. What its runs were
// stays.
func (w *storedTwo) sessions(rt *agent.Runtime) {
	w.section("sub-agents, and a message to each")
	t, ctx := w.t, w.t.Context()
	var list []spawn.RunInfo
	for _, r := range w.runs() {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b spawn.RunInfo) int {
		return cmp.Compare(a.Key.String(), b.Key.String())
	})
	require.NotEmpty(t, list)
	for _, r := range list {
		s := rt.Session(r.Key)
		runs, err := s.OwnRuns(ctx)
		require.NoError(t, err)
		fmt.Fprintf(&w.text, "%s %s, conversations %v\n", r.Label, r.Key, r.Conversations)
		for _, one := range runs {
			fmt.Fprintf(&w.text, "  %s %s: %q, %d turns, follow-up %t from %s, thread %t, ended %s\n",
				one.ID, one.Status, one.Result.Text, one.Turns, one.FollowUp, one.From, one.Thread,
				timeText(one.Ended))
			found, err := s.FindRun(ctx, one.ID)
			require.NoError(t, err)
			require.Equal(t, one, found)
		}
		receipt, err := s.Post(ctx, agent.Incoming{Text: "say " + r.Label})
		if _, ended := errors.AsType[*spawn.EndedError](err); ended {
			fmt.Fprintf(&w.text, "  takes nothing: what is above it has ended\n")
			continue
		}
		require.NoError(t, err, r.Label)
		require.True(t, receipt.Began, r.Label)
		w.idle(rt)
		now, err := s.FindRun(ctx, receipt.Run)
		require.NoError(t, err)
		fmt.Fprintf(&w.text, "  then %s: %q\n", now.Status, now.Result.Text)
		first, err := s.FindRun(ctx, runs[0].ID)
		require.NoError(t, err)
		require.Equal(t, runs[0].Result, first.Result, "the first run stays what it was")
		require.Equal(t, runs[0].Status, first.Status)
		after, err := s.OwnRuns(ctx)
		require.NoError(t, err)
		require.Equal(t, receipt.Run, after[len(after)-1].ID)
	}
	w.text.WriteByte('\n')
	w.accepted("told after that")
}

// storedTasks are those that the directories have under keys.
func storedTasks() (list []agent.Task) {
	for _, label := range []string{
		"plain", "failed", "slow", "cleaned", "deleted", "revived", "archived", "boss",
	} {
		task := agent.Task{Text: "do 10 " + label, Label: label, Key: "k-" + label}
		switch label {
		case "plain":
			task.Announce = true
		case "failed":
			task.Text = "do fail"
		case "cleaned":
			task.Cleanup = agent.CleanupDelete
		case "archived":
			task.Text = "do 20 archived"
		case "slow":
			task.Text = "do 7200 slow"
		case "boss":
			task.Text, task.Announce = "do yield", true
		}
		list = append(list, task)
	}
	return list
}

// keys spawns again what has a key: it gives what was made of it, whatever has become of that.
func (w *storedTwo) keys(rt *agent.Runtime) {
	w.section("keys")
	t, ctx := w.t, w.t.Context()
	main := rt.Session(session.Must(session.MainKey("main")))
	tree, err := main.Tree(ctx)
	require.NoError(t, err)
	tasks := storedTasks()
	if filepath.Base(w.source) == "receipts" {
		tasks = tasks[:3]
	}
	for _, task := range tasks {
		child, err := main.Spawn(ctx, task)
		require.NoError(t, err, task.Label)
		text, err := child.Wait(ctx)
		fmt.Fprintf(&w.text, "%s %s: %q, %v\n", task.Key, child.ID(), text, err)
		there := slices.ContainsFunc(tree, func(r spawn.RunInfo) bool {
			return r.Key == child.Key()
		})
		if there {
			continue
		}
		_, err = rt.Session(child.Key()).Post(ctx, agent.Incoming{Text: "say hello"})
		require.ErrorIs(t, err, agent.ErrArchived, task.Label)
		if err := rt.Session(child.Key()).Revive(ctx); err != nil {
			fmt.Fprintf(&w.text, "  not brought back: %v\n", err)
			continue
		}
		receipt, err := rt.Session(child.Key()).Post(ctx, agent.Incoming{Text: "say hello"})
		require.NoError(t, err)
		w.idle(rt)
		now, err := rt.Session(child.Key()).FindRun(ctx, receipt.Run)
		require.NoError(t, err)
		fmt.Fprintf(&w.text, "  brought back, %s: %q\n", now.Status, now.Result.Text)
	}
	w.text.WriteByte('\n')
	w.lines = nil
}

// conversations has people write where something is bound, and ends it.
func (w *storedTwo) conversations(rt *agent.Runtime) {
	w.section("conversations")
	t, ctx := w.t, w.t.Context()
	bound, err := rt.Bindings(ctx)
	require.NoError(t, err)
	for _, b := range bound {
		receipt, err := w.chat.Write(ctx, rt, b.Conversation, "ann", "say here")
		require.NoError(t, err)
		require.Equal(t, b.Target, receipt.Session, "what is bound there gets it")
		w.idle(rt)
		_, err = rt.Unfocus(ctx, agent.UnfocusRequest{Conversation: b.Conversation, By: b.By})
		require.NoError(t, err)
		synctest.Wait()
		receipt, err = w.chat.Write(ctx, rt, b.Conversation, "ann", "say there")
		require.NoError(t, err)
		require.NotEqual(t, b.Target, receipt.Session, "its own session gets it")
		w.idle(rt)
		fmt.Fprintf(&w.text, "%+v of %s: %q\n", b.Conversation, b.Target, w.chat.Said(b.Conversation))
	}
	w.text.WriteByte('\n')
}

// atRestButBound checks that nothing is left to do.
func (w *storedTwo) atRestButBound() {
	w.view(func(store *session.Store) {
		for _, root := range w.roots(store) {
			entries := store.Journal.Read(w.t.Context(), root, 0)
			report, err := spawntest.Inspect(entries)
			require.NoError(w.t, err, root)
			require.NoError(w.t, report.AtRest(), root)
		}
	})
}

// describeStored returns what a directory means: its trees with their runs, what waits to be read
// and to be delivered, and the conversations that are bound. The code of each version that has
// written one of testdata/state-v2 has written the description beside it, by this function.
func describeStored(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	store, err := dirstore.View(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	var roots []session.Key
	for head, err := range store.Journal.Roots(t.Context(), session.RootQuery{}) {
		require.NoError(t, err)
		if head.Root != session.BindingsRoot() {
			roots = append(roots, head.Root)
		}
	}
	slices.SortFunc(roots, func(a, b session.Key) int {
		return cmp.Compare(a.String(), b.String())
	})
	for _, root := range roots {
		v, err := spawn.View(root, store.Journal.Read(t.Context(), root, 0))
		require.NoError(t, err)
		fmt.Fprintf(&text, "%s %s, epoch %d, %d runs ever, session %s\n",
			v.Root, v.Status, v.Epoch, v.Total, v.SessionID)
		for _, r := range v.Runs {
			describeRun(&text, r)
		}
		for _, u := range v.Unread {
			fmt.Fprintf(&text, "  unread %s: %d messages, %d steers, %d completions\n",
				u.Session, u.Messages, u.Steers, u.Completions)
		}
		for _, o := range v.Outbox {
			fmt.Fprintf(&text, "  outbox %s to %s: ", o.Key, o.To)
			switch {
			case o.Reply != nil:
				fmt.Fprintf(&text, "reply %q at %+v", o.Reply.Text, o.Reply.Route)
			case o.Completion != nil:
				fmt.Fprintf(&text, "completion of %s", o.Completion.Run.ID)
			}
			fmt.Fprintf(&text, ", attempt %d, busy %t\n", o.Attempt, o.Busy)
		}
	}
	bindings, err := binding.Open(t.Context(), store.Journal)
	require.NoError(t, err)
	for _, b := range bindings.All(time.Now()) {
		fmt.Fprintf(&text, "bound %+v to %s by %s, label %q\n",
			b.Conversation, b.Target, b.By, b.Label)
		fmt.Fprintf(&text, "  %s, touched %s, idle %s, max age %s\n",
			timeText(b.Bound), timeText(b.Touched), b.Idle, b.MaxAge)
	}
	return text.String()
}

func describeRun(text *strings.Builder, r spawn.RunInfo) {
	fmt.Fprintf(text, "  %s %s: %q, error %q, id %s\n",
		r.Label, r.Status, r.Result.Text, r.Error, r.ID)
	fmt.Fprintf(text, "    %s below %s, %d turns, %d children, session %s\n",
		r.Key, r.Parent, r.Turns, r.Children, r.SessionID)
	fmt.Fprintf(text, "    task %q, created %s, started %s, ended %s\n", r.Task,
		timeText(r.Created), timeText(r.Started), timeText(r.Ended))
}
