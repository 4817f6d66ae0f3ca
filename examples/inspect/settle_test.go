package main

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

var ops = session.Must(session.MainKey("ops"))

// kinds returns what the entries of a tree record, one word each.
func kinds(t *testing.T, dir string, root session.Key) (list []string) {
	t.Helper()
	for line := range strings.Lines(must(t, "-state", dir, "-tree", root.String(), "-json")) {
		var e struct{ Payload struct{ Kind string } }
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		list = append(list, e.Payload.Kind)
	}
	return list
}

// transcripts returns the files of conversations.
func transcripts(t *testing.T, dir string) map[string]string {
	t.Helper()
	return files(t, filepath.Join(dir, "sessions"))
}

// headOf returns what the journal says of a tree.
func headOf(t *testing.T, dir string, root session.Key) session.Head {
	t.Helper()
	store, err := dirstore.View(dir)
	require.NoError(t, err)
	defer store.Close() //nolint:errcheck // nothing was written
	heads, err := roots(t.Context(), store)
	require.NoError(t, err)
	i := slices.IndexFunc(heads, func(h session.Head) bool { return h.Root == root })
	require.GreaterOrEqual(t, i, 0)
	return heads[i]
}

// blocked returns the keys of the blocked deliveries of a tree, by the label of the run.
func blocked(t *testing.T, dir string, root session.Key) map[string]string {
	t.Helper()
	keys := make(map[string]string)
	for _, e := range views(t, dir)[root].Outbox {
		if !e.Blocked.IsZero() {
			keys[e.Completion.Run.Label] = e.Key
		}
	}
	return keys
}

// -retry and -dismiss add two entries: one that names the process, and one that says what it did.
// They change nothing else.
func TestSettle(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var keys map[string]string
		bot(t, dir, refuse, func(rt *agent.Runtime) {
			spawnTask(t, rt, ops, agent.Task{Text: "wait for ever", Label: "endless"})
			for _, label := range []string{"first", "second"} {
				spawnTask(t, rt, top, agent.Task{Text: "report", Label: label})
			}
			wait(2 * time.Hour)
			silent := agent.Task{Text: "report", Label: "silent"}
			_, err := agent.Spawn[string](t.Context(), rt.Session(top), silent)
			require.NoError(t, err)
			wait(time.Minute)

			keys = blocked(t, dir, top)
			require.ElementsMatch(t, []string{"first", "second"}, slices.Collect(maps.Keys(keys)))
			before := files(t, dir)
			for _, key := range []string{keys["first"], "nonsense"} {
				for _, how := range []string{"-retry", "-dismiss"} {
					errs := refused(t, exitError, "-state", dir, how, key)
					assert.Regexp(t, `^inspect: a bot has the directory open, nothing was changed: `+
						`dirstore: directory ".*" is locked by process \d+ on ".*" since .*\n$`, errs)
				}
			}
			assert.Equal(t, before, files(t, dir))
		})
		wait(5 * time.Hour) // the silent one could be archived by now

		had, conversations, other := kinds(t, dir, top), transcripts(t, dir), headOf(t, dir, ops)
		require.Equal(t, "dismissed\n", must(t, "-state", dir, "-dismiss", keys["second"]))
		require.Equal(t, append(had, "opened", "dismissed"), kinds(t, dir, top))
		assert.True(t, headOf(t, dir, top).Due.Before(time.Now()),
			"the tree is due at once: its run can be archived")

		wait(time.Minute)
		had = kinds(t, dir, top)
		out := must(t, "-state", dir, "-retry", keys["first"])
		require.Equal(t, "it is tried again when the bot runs\n", out)
		require.Equal(t, append(had, "opened", "revived"), kinds(t, dir, top))
		require.Empty(t, blocked(t, dir, top))
		assert.True(t, headOf(t, dir, top).Due.Before(time.Now()))

		before := files(t, dir)
		for key, want := range map[string]string{
			keys["second"]: "no delivery ",
			keys["first"]:  "is not blocked: it is tried by itself, due now",
		} {
			errs := refused(t, exitError, "-state", dir, "-dismiss", key)
			assert.Contains(t, errs, want)
		}
		assert.Equal(t, before, files(t, dir))
		assert.Equal(t, conversations, transcripts(t, dir))
		assert.Equal(t, other, headOf(t, dir, ops), "the other tree is not opened")
		assert.Contains(t, must(t, "-state", dir), "endless")

		got := make(chan string, 10)
		accept := func(d agent.Delivery) error {
			got <- d.Completion.Run.Label
			return nil
		}
		bot(t, dir, accept, func(*agent.Runtime) {
			wait(time.Minute)
			assert.Len(t, got, 2)
			assert.ElementsMatch(t, []string{"first", "endless"}, []string{<-got, <-got})
			for _, r := range views(t, dir)[top].Runs {
				t.Errorf("%s has been there for hours and is not archived", r.Label)
			}
		})
	})
}

// After a crash, -retry and -dismiss take the tree over. They record what became of its turns and
// start none.
func TestSettleAfterACrash(t *testing.T) {
	for _, how := range []string{"retry", "dismiss"} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			bot(t, dir, refuse, func(rt *agent.Runtime) {
				spawnTask(t, rt, top, agent.Task{Text: "report", Label: "first"})
				wait(time.Hour)
				spawnTask(t, rt, top, agent.Task{Text: "wait for ever", Label: "endless"})
				wait(time.Minute)
			})
			had := kinds(t, dir, top)
			must(t, "-state", dir, "-"+how, blocked(t, dir, top)["first"])
			settled := map[string]string{"retry": "revived", "dismiss": "dismissed"}[how]
			want := append(had, "opened", "turn_ended", "stop_requested", "run_ended", settled)
			require.Equal(t, want, kinds(t, dir, top))
			out := must(t, "-state", dir)
			assert.Regexp(t, `interrupted  .*endless .*the process that ran its turn is gone`, out)
			assert.Regexp(t, `pending  0s +0 times +(now|after \S+\.1) +the end of endless`, out)
		})
	}
}

// A key that is in two trees, since one of them is a copy, settles neither.
func TestSettleWhatIsAmbiguous(t *testing.T) {
	dir := t.TempDir()
	store, err := dirstore.Open(dir)
	require.NoError(t, err)
	for _, root := range []session.Key{top, ops} {
		var b session.Batch
		for _, f := range []string{
			`{"v":1,"kind":"opened","at":1,"num":1,"id":"s"}`,
			`{"v":1,"kind":"posted","at":1,"run":"ROOT","class":1,"ord":1,"text":"hello"}`,
			`{"v":1,"kind":"turn_started","at":1,"run":"ROOT","n":1,"ord":1}`,
			`{"v":1,"kind":"turn_ended","at":1,"run":"ROOT","state":5,"flags":64,"n":1,"answer":{"reply":"hi"}}`,
			`{"v":1,"kind":"blocked","at":1,"ord":1,"text":"down"}`,
		} {
			fact := session.Raw(strings.ReplaceAll(f, "ROOT", root.String()))
			b.Entries = append(b.Entries, session.Entry{Payload: fact})
		}
		_, err = store.Journal.Append(t.Context(), root, 0, b)
		require.NoError(t, err)
	}
	require.NoError(t, store.Close())
	before := files(t, dir)
	errs := refused(t, exitError, "-state", dir, "-dismiss", "s.1")
	assert.Equal(t, "inspect: delivery \"s.1\" is ambiguous, nothing was changed: it is in the trees agent:main:main and agent:ops:main\n", errs)
	assert.Equal(t, before, files(t, dir))
}

// A delivery behind one that fails, to the same session, is not due: it comes after that one.
func TestHeldBackIsListedAfterTheFirst(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		bot(t, dir, refuse, func(rt *agent.Runtime) {
			for _, label := range []string{"one", "two"} {
				spawnTask(t, rt, top, agent.Task{Text: "report", Label: label})
			}
			spawnTask(t, rt, ops, agent.Task{Text: "report", Label: "three"})
			wait(20 * time.Second)
			v := views(t, dir)
			out := v[top].Outbox
			require.Len(t, out, 2)
			assert.Empty(t, out[0].After)
			assert.Equal(t, out[0].Key, out[1].After)
			assert.Empty(t, v[ops].Outbox[0].After)
			assert.Regexp(t, `0 times  after `+out[0].Key+`  the end of`, must(t, "-state", dir))
		})
	})
}
