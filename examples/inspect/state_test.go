package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
	"github.com/offshoot-sdk/offshoot/spawn"
)

// bot runs a bot on a directory while live runs. A child whose task says "for ever" does not end.
// The process of the bot dies with it.
func bot(t *testing.T, dir string, deliver func(agent.Delivery) error, live func(*agent.Runtime)) {
	t.Helper()
	store, err := dirstore.Open(dir)
	require.NoError(t, err)
	rt, err := agent.Open(t.Context(), agent.Config{
		Store: store,
		Runner: agent.RunnerFunc(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
			if strings.Contains(turn.Input(), "for ever") {
				<-ctx.Done()
			}
			return agent.Result{Text: "done \x1b[31m\u0085"}, ctx.Err()
		}),
		Deliver: func(_ context.Context, d agent.Delivery) error { return deliver(d) },
	})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- rt.Run(context.WithoutCancel(t.Context())) }()
	live(rt)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := rt.Shutdown(ctx); err != nil { // something never comes to an end
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.NoError(t, <-done)
	require.NoError(t, store.Close())
}

func refuse(agent.Delivery) error { return errors.New("no connection") }

// wait lets d pass, and waits for what happens in that time.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// views returns what -json prints, by root.
func views(t *testing.T, dir string) map[session.Key]spawn.TreeView {
	t.Helper()
	list := make(map[session.Key]spawn.TreeView)
	for line := range strings.Lines(must(t, "-state", dir, "-json")) {
		var v spawn.TreeView
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		list[v.Root] = v
	}
	return list
}

// spawnTask starts a sub-agent whose end is announced.
func spawnTask(t *testing.T, rt *agent.Runtime, of session.Key, task agent.Task) {
	t.Helper()
	task.Announce = true
	_, err := agent.Spawn[string](t.Context(), rt.Session(of), task)
	require.NoError(t, err)
}

var top = session.Must(session.MainKey("main"))

// The list is right while the bot runs and after it.
func TestList(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		bot(t, dir, refuse, func(rt *agent.Runtime) {
			wait(time.Minute)
			assert.Contains(t, must(t, "-state", dir), "0 trees, 0 runs, unread: nothing, deliveries: 0 pending, 0 blocked\n")
			spawnTask(t, rt, top, agent.Task{Text: "report", Label: "first"})
			wait(time.Minute)
			out := must(t, "-state", dir)
			assert.Regexp(t, `last opened 2m0s ago by process \d+ on "`, out)
			assert.Regexp(t, `\nagent:main:main: waiting, due in \d+.*s, last entry .*s ago by owner 1\n  STATE  ELAPSED  RUN    SESSION\n  ok     0s       first  agent:main:subagent:`, out)
			assert.Regexp(t, `\S+\.1  pending  1m0s  [23] times  in \d+.*s  the end of first  agent:main:main  no connection\n`, out)
			assert.Contains(t, out, "\n1 tree, 1 run (1 ok), unread: nothing, deliveries: 1 pending, 0 blocked\n")

			wait(time.Hour)
			spawnTask(t, rt, top, agent.Task{Text: "wait for ever", Label: "endless"})
			wait(2 * time.Minute)
			out = must(t, "-state", dir)
			assert.Regexp(t, `running  2m0s     endless  agent:main:subagent:`, out)
			assert.Regexp(t, `\S+\.1  blocked  \d+m\d+s  \d+ times  -     the end of first  agent:main:main  no connection\n`, out)
			assert.Contains(t, out, "1 running, 1 ok), unread: nothing, deliveries: 0 pending, 1 blocked\nwhile the bot does not run, -retry KEY")
			runs, err := rt.Session(top).Tree(t.Context())
			require.NoError(t, err)
			v := views(t, dir)[top]
			require.Len(t, v.Runs, len(runs))
			for i := range runs {
				assert.Equal(t, runs[i].Key, v.Runs[i].Key)
				assert.Equal(t, runs[i].Status, v.Runs[i].Status)
				assert.Equal(t, runs[i].Result.Text, v.Runs[i].Result.Text)
			}
		})
		before := files(t, dir)
		wait(time.Hour)
		assert.Regexp(t, `running  1h3m  +endless`, must(t, "-state", dir), "the journal says nothing else")
		assert.Equal(t, before, files(t, dir), "looking changes nothing")
	})
	out := must(t, "-state", dir, "-tree", top.String())
	assert.Contains(t, out, "ended ok")
	assert.NotContains(t, out, "\x1b")
	assert.Contains(t, must(t, "-state", dir, "-verify"), "1 trees: 0 bad")
	n := 0
	for line := range strings.Lines(must(t, "-state", dir, "-tree", top.String(), "-json")) {
		var e session.Entry
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		n++
		require.EqualValues(t, n, e.Seq)
	}
	assert.Equal(t, n, strings.Count(out, "\n"))
}

func TestStateSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.Mkdir(path("empty"), 0o700))
	require.NoError(t, os.MkdirAll(path("half/journal"), 0o700))
	require.NoError(t, os.WriteFile(path("file"), []byte("x"), 0o600))
	before := files(t, dir)
	for name, want := range map[string]string{
		"none":  `there is no directory "` + path("none") + `"`,
		"empty": `directory "` + path("empty") + `" holds no state: dirstore.Open has never opened it`,
		"half":  `directory "` + path("half") + `" holds no state: dirstore.Open has never opened it`,
		"file":  `"` + path("file") + `" is not a directory`,
	} {
		for _, args := range [][]string{
			{},
			{"-json"},
			{"-verify"},
			{"-tree", "agent:main:main"},
			{"-retry", "x"},
			{"-dismiss", "x"},
			{"-repair"},
			{"-restored"},
		} {
			errs := refused(t, exitError, append([]string{"-state", path(name)}, args...)...)
			assert.Equal(t, "inspect: "+want+"\n", errs)
		}
	}
	assert.Equal(t, before, files(t, dir), "nothing was made")

	for _, args := range [][]string{
		{"-state", ""},
		{"-state", dir, "-retry", ""},
		{"-state", dir, "-dismiss", ""},
		{"-state", dir, "-dismiss="},
		{"-state", dir, "-tree", ""},
		{"-state", dir, "-retry", "", "-dismiss", ""},
		{"-workspace", dir, "-session", ""},
		{"-workspace", "", "-session", "agent:main:main"},
		{"-workspace", dir, "-session", "agent:main:main", "-diff", ""},
		{"-state", dir, "x"},
		{"-state", dir, "-verify", "-retry", "x"},
		{"-state", dir, "-tree", "nonsense"},
		{"-state", dir, "-json", "-verify"},
		{"-state", dir, "-retry", "x", "-dismiss", "x"},
		{"-state", dir, "-loud"},
	} {
		errs := refused(t, exitUsage, args...)
		assert.Contains(t, errs, "inspect: ")
		assert.Equal(t, 2, strings.Count(errs, "\n"), errs)
	}
	out := must(t, "-state", dir, "-h")
	assert.Contains(t, out, "-dismiss")
}

// A tree that cannot be read does not hide the others. A log that cannot be read is an error.
func TestStateOfWhatIsBroken(t *testing.T) {
	dir := t.TempDir()
	store, err := dirstore.Open(dir)
	require.NoError(t, err)
	for root, facts := range map[session.Key][]string{
		top: {`{"v":1,"kind":"opened","at":1,"num":1,"id":"s"}`},
		session.Must(session.MainKey("newer")): {
			`{"v":1,"kind":"opened","at":1,"num":1,"id":"s"}`, `{"v":9,"kind":"opened"}`,
		},
		session.Must(session.MainKey("other")): {`"x"`},
	} {
		for i, f := range facts {
			b := session.Batch{Entries: []session.Entry{{Payload: session.Raw(f)}}}
			_, err = store.Journal.Append(t.Context(), root, session.Seq(i), b)
			require.NoError(t, err)
		}
	}
	require.NoError(t, store.Close())
	code, out, errs := state(t, "-state="+dir)
	assert.Equal(t, exitError, code)
	assert.Contains(t, out, "\nagent:main:main: waiting, at rest, ")
	assert.Contains(t, out, "\n1 tree, 0 runs, unread: nothing, deliveries: 0 pending, 0 blocked\n2 more trees cannot be read; -verify looks at everything\n")
	assert.Regexp(t, `^inspect: spawn: journal of "agent:newer:main", entry 2: .*version 9.*\ninspect: spawn: journal of "agent:other:main", entry 1: .*\n$`, errs)
	code, out, _ = state(t, "-state="+dir, "-json")
	assert.Equal(t, exitError, code)
	assert.Equal(t, 1, strings.Count(out, "\n"))
	code, out, _ = state(t, "-state="+dir, "-verify")
	assert.Equal(t, exitError, code)
	assert.Contains(t, out, "bad   agent:other:main")
	code, _, errs = state(t, "-state="+dir, "-retry", "x")
	assert.Equal(t, exitError, code)
	assert.Contains(t, errs, `entry 2: `, "the key may be in what cannot be read")
	errs = refused(t, exitError, "-state="+dir, "-tree", "agent:absent:main")
	assert.Contains(t, errs, `no journal of "agent:absent:main"`)

	name := filepath.Join(dir, "journal", "00000001.wal")
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	b[120] ^= 1
	require.NoError(t, os.WriteFile(name, b, 0o600))
	for _, args := range [][]string{{}, {"-verify"}, {"-retry", "x"}} {
		code, _, errs = state(t, append([]string{"-state", dir}, args...)...)
		assert.Equal(t, exitError, code)
		assert.Regexp(t, `^inspect: .*00000001.wal: at byte \d+: .*\n`, errs)
	}
	after, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, b, after)
}

// R10: the log of a bot is damaged at any place. The list has the trees before the damage, also
// without a repair. A repair is refused while the bot runs. After it everything that is left is
// intact and consistent, a second repair has nothing to do, and the bot goes on.
func TestRepair(t *testing.T) {
	chats := []session.Key{top}
	for _, name := range []string{"a", "b", "c"} {
		chats = append(chats, session.Must(session.NamedKey("main", name)))
	}
	accept := func(agent.Delivery) error { return nil }
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		bot(t, dir, accept, func(rt *agent.Runtime) {
			for _, chat := range chats {
				for range 3 {
					spawnTask(t, rt, chat, agent.Task{Text: "report", Label: "first"})
					require.NoError(
						t, errorOf(rt.Session(chat).Post(t.Context(), agent.Incoming{Text: "go on"})),
					)
					wait(time.Minute)
				}
			}
			errs := refused(t, exitError, "-state", dir, "-repair")
			assert.Contains(t, errs, "is locked by")
		})
	})
	assert.Equal(t, "nothing is damaged\n", must(t, "-state", dir, "-repair"))
	name := filepath.Join("journal", "00000001.wal")
	whole, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	for _, at := range []int{10, 60, 3 * len(whole) / 8, 5 * len(whole) / 8, len(whole) - 60} {
		for _, cut := range []int{0, 1, len(whole) - at} {
			copied := filepath.Join(t.TempDir(), "copy")
			require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
			b := slices.Concat(whole[:at], whole[at+cut:])
			if cut == 0 {
				b[at] ^= 1
			}
			require.NoError(t, os.WriteFile(filepath.Join(copied, name), b, 0o600))
			repaired(t, copied, chats, fmt.Sprintf("%d bytes at %d", cut, at))
		}
	}
}

// repaired repairs a directory, and has the bot go on with it.
func repaired(t *testing.T, dir string, chats []session.Key, what string) {
	t.Helper()
	before := files(t, dir)
	code, list, errs := state(t, "-state", dir)
	if code == exitOK { // the damage is in the seal
		return
	}
	require.Equal(t, exitError, code, what)
	require.Contains(t, errs, ".wal: at byte ", what)
	require.Equal(t, before, files(t, dir), "%s: looking changes nothing", what)
	out := must(t, "-state", dir, "-repair")
	require.Contains(t, out, "00000001.wal.torn.0", what)
	require.Equal(t, "nothing is damaged\n", must(t, "-state", dir, "-repair"), what)
	require.Contains(t, must(t, "-state", dir, "-verify"), ": 0 bad\n", what)
	_, trees, _ := strings.Cut(list, "\n\n") // the first line names the process
	_, now, _ := strings.Cut(must(t, "-state", dir), "\n\n")
	age := regexp.MustCompile(`last entry \S+ ago`)
	require.Equal(t, age.ReplaceAllString(trees, ""), age.ReplaceAllString(now, ""), what)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(24 * time.Hour) // what was written is from such a bubble
		bot(t, dir, func(agent.Delivery) error { return nil }, func(rt *agent.Runtime) {
			for _, chat := range chats {
				next := agent.Incoming{Text: "next"}
				require.NoError(t, errorOf(rt.Session(chat).Post(t.Context(), next)), what)
				require.NoError(t, rt.Session(chat).Idle(t.Context()), what)
			}
		})
	})
	require.Contains(t, must(t, "-state", dir, "-verify"), "4 trees: 0 bad\n", what)
	for _, v := range views(t, dir) {
		for _, r := range v.Runs {
			require.True(t, r.Status.Terminal(), what)
		}
		require.Empty(t, v.Unread, what)
	}
}
