package pgstore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/session/storecopy"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// movedEnv makes the test binary a bot in its first life: its value is the directory of its store,
// or a connection string and a schema.
const movedEnv = "PGSTORE_TEST_MOVED"

// A movedBot is a bot whose store is moved. In its first life the slow tasks hang and the replies
// to one chat are held up.
type movedBot struct {
	first bool
	say   func(format string, args ...any)

	mu      sync.Mutex
	replies map[string][]string // by the session that they are of
	keys    map[string]bool     // of the deliveries
}

var taskOf = regexp.MustCompile(`task: (\w+ ?\d?)`)

const saidBehind = "\n---\n"

var (
	heldChat   = session.Must(session.DirectKey("main", "term", "held"))
	resetChat  = session.Must(session.DirectKey("main", "term", "reset"))
	workChat   = session.Must(session.DirectKey("main", "term", "work"))
	threadChat = session.Must(session.GroupKey("main", "term", "room"))
	movedChats = []session.Key{heldChat, resetChat, workChat, threadChat}

	movedThread = session.Route{Channel: "term", To: "room", Thread: "t1"}
)

func (b *movedBot) open(ctx context.Context, store *session.Store) (*agent.Runtime, error) {
	return agent.Open(ctx, agent.Config{
		Store: store, Runner: agent.RunnerFunc(b.run), Reply: b.reply,
		Rules: policy.Rules{Subagents: policy.Subagents{MaxConcurrent: 2}},
		Threads: agent.Threads{
			Channels: map[string]agent.ThreadChannel{"term": {Host: movedHost{}}},
		},
	})
}

func (b *movedBot) run(ctx context.Context, t *agent.Turn) (agent.Result, error) {
	last := t.Messages[len(t.Messages)-1].Text
	if t.Run == "" { // so that what is said does not depend on how many messages a turn has
		var heard []string
		for _, m := range t.Messages[len(t.Messages)-t.New:] {
			text := m.Text
			if task := taskOf.FindStringSubmatch(text); m.Internal && task != nil {
				cut := strings.Contains(text, "interrupted")
				text = fmt.Sprint("of ", task[1], ", interrupted: ", cut)
			}
			heard = append(heard, "heard "+text)
		}
		return agent.Result{Text: strings.Join(heard, saidBehind)}, nil
	}
	if b.first && strings.Contains(last, "slow") {
		b.say("asking %s", t.Run)
		<-ctx.Done()
		return agent.Result{}, ctx.Err()
	}
	text := "did" + last[strings.LastIndexByte(last, ':')+1:]
	if t.Files == nil {
		return agent.Result{Text: text}, nil
	}
	err := fs.WalkDir(t.Files, ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var data []byte
			data, err = fs.ReadFile(t.Files, path)
			text += " with " + string(data)
		}
		return err
	})
	return agent.Result{Text: text}, err
}

func (b *movedBot) reply(_ context.Context, d agent.Delivery) error {
	if b.first && d.To == heldChat {
		b.say("held %s", d.Key)
		return spawn.ErrBusy
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys[d.Key] = true
	name := d.To.String() + " at " + d.Reply.Route.Thread
	b.replies[name] = append(b.replies[name], d.Reply.Text)
	return nil
}

type movedHost struct{}

func (movedHost) CreateThread(context.Context, agent.NewThread) (session.Route, error) {
	return movedThread, nil
}
func (movedHost) Farewell(context.Context, agent.Farewell) error { return nil }
func (movedHost) ProbeThread(context.Context, session.Route) (agent.ThreadState, error) {
	return agent.ThreadUncertain, nil
}

// movedChild is the first life of the bot, which is killed when it has said that it is ready.
func movedChild() {
	b := &movedBot{
		first: true, replies: map[string][]string{}, keys: map[string]bool{},
		say: func(format string, args ...any) {
			fmt.Printf(format+"\n", args...) //nolint:forbidigo // that of a child process
		},
	}
	if err := b.firstLife(context.Background()); err != nil {
		b.say("failed: %v", err)
	}
	select {}
}

func (b *movedBot) firstLife(ctx context.Context) error {
	place, schema, _ := strings.Cut(os.Getenv(movedEnv), " ")
	store, err := openMoved(ctx, place, schema)
	if err != nil {
		return err
	}
	rt, err := b.open(ctx, store)
	if err != nil {
		return err
	}
	go func() { b.say("failed: %v", rt.Run(ctx)) }()
	post := func(chat session.Key, text string) error {
		_, err := rt.Session(chat).Post(ctx, agent.Incoming{Text: text, ID: text})
		return err
	}
	file := func(name string) []agent.Attachment {
		return []agent.Attachment{{Name: name, Reader: strings.NewReader("bytes of " + name)}}
	}
	thread := func() error {
		_, err := rt.Session(threadChat).Spawn(ctx, agent.Task{
			Text: "paint", Label: "painter", Announce: true, Thread: true,
			Mode: agent.TaskModeSession,
		})
		if err != nil {
			return err
		}
		return rt.Session(threadChat).Idle(ctx)
	}
	steps := []func() error{
		func() error { return post(resetChat, "before") },
		func() error { return rt.Session(resetChat).Idle(ctx) },
		func() error { return rt.Session(resetChat).Reset(ctx) },
		func() error { return post(resetChat, "behind") },
		func() error { return rt.Session(resetChat).Idle(ctx) },
		thread,
		func() error { return post(heldChat, "hold this") },
		func() error { return post(heldChat, "and this") },
	}
	for i := range 5 {
		steps = append(steps, func() error {
			_, err := rt.Session(workChat).Spawn(ctx, agent.Task{
				Text: fmt.Sprint("slow ", i), Label: fmt.Sprint("slow ", i), Announce: i != 4,
				Attachments: file(fmt.Sprint("slow", i)),
			})
			return err
		})
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	b.say("ready")
	return nil
}

func openMoved(ctx context.Context, place, schema string) (*session.Store, error) {
	if schema == "" {
		return dirstore.Open(place)
	}
	return pgstore.Open(ctx, place, pgstore.Options{Schema: schema, TrustSync: true})
}

// liveFirst lets a bot live for the first time, and kills it. It returns the keys of the replies
// that were held up.
func liveFirst(t *testing.T, place string) (held map[string]bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), movedEnv+"="+place)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	defer time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	held = map[string]bool{}
	ready, asking := false, map[string]bool{}
	for in := bufio.NewScanner(out); in.Scan(); {
		what, rest, _ := strings.Cut(in.Text(), " ")
		switch what {
		case "ready":
			ready = true
		case "held":
			held[rest] = true
		case "asking":
			asking[rest] = true
		case "failed:":
			require.Fail(t, in.Text())
		}
		if ready && len(held) > 0 && len(asking) == 2 {
			return held
		}
	}
	require.Fail(t, "the bot has ended")
	return nil
}

// changing finds what is not the same in two lives that have begun with the same store.
var changing = regexp.MustCompile(
	`\d{4}-\d\d-\d\dT[\d:.]+Z|"(pos|turns?|earlier)": ?\d+|\d+(\.\d+)?m?s\b`)

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// namesIn returns the ids that the logs of a store have.
func namesIn(t *testing.T, store *session.Store) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for h, err := range store.Journal.Roots(t.Context(), session.RootQuery{}) {
		require.NoError(t, err)
		for e, err := range store.Journal.Read(t.Context(), h.Root, 0) {
			require.NoError(t, err)
			for _, id := range uuids.FindAllString(string(e.Payload.(session.Raw)), -1) {
				names[id] = true
			}
		}
	}
	return names
}

// A secondLife is a bot that goes on, and what can be seen of it.
type secondLife struct {
	t     *testing.T
	rt    *agent.Runtime
	bot   *movedBot
	known map[string]bool
	text  strings.Builder
}

// show adds a value, without what is not the same in another life.
func (l *secondLife) show(name string, v any, err error) {
	require.NoError(l.t, err, name)
	line, err := json.MarshalIndent(v, "", "\t")
	require.NoError(l.t, err)
	line = uuids.ReplaceAllFunc(changing.ReplaceAll(line, nil), func(id []byte) []byte {
		if l.known[string(id)] {
			return id
		}
		return []byte("new")
	})
	fmt.Fprintf(&l.text, "%s: %s\n", name, line)
}

// idle waits until every chat has nothing to do.
func (l *secondLife) idle() {
	for _, chat := range movedChats {
		require.NoError(l.t, l.rt.Session(chat).Idle(l.t.Context()))
	}
}

// parts returns what texts say, in an order of its own.
func parts(texts []string) (all []string) {
	for _, text := range texts {
		all = append(all, strings.Split(text, saidBehind)...)
	}
	slices.Sort(all)
	return all
}

// showAll adds the listings and the histories.
func (l *secondLife) showAll() {
	ctx := l.t.Context()
	list, err := l.rt.Sessions(ctx, agent.SessionQuery{})
	slices.SortFunc(list, func(a, b agent.SessionInfo) int {
		return strings.Compare(a.Key.String(), b.Key.String())
	})
	l.show("sessions", list, err)
	for _, info := range list {
		page, err := l.rt.Session(info.Key).History(ctx, agent.HistoryQuery{})
		said := map[session.MessageRole][]string{}
		for _, line := range page.Lines {
			said[line.Message.Role] = append(said[line.Message.Role], line.Message.Text)
		}
		for role, texts := range said {
			said[role] = parts(texts)
		}
		l.show("history of "+info.Key.String(), said, err)
	}
	for _, chat := range movedChats {
		runs, err := l.rt.Session(chat).Tree(ctx)
		l.show("runs of "+chat.String(), runs, err)
	}
	bound, err := l.rt.Bindings(ctx)
	l.show("bindings", bound, err)
	blocked, err := l.rt.Blocked(ctx)
	l.show("blocked", blocked, err)
	usage, err := l.rt.Usage(ctx, agent.UsageQuery{})
	l.show("usage", usage, err)
}

// liveAgain has a bot go on with a store to its end, and returns all that can be seen of it.
func liveAgain(t *testing.T, store *session.Store) (seen string, keys map[string]bool) {
	t.Helper()
	ctx := t.Context()
	l := &secondLife{
		t: t, known: namesIn(t, store),
		bot: &movedBot{replies: map[string][]string{}, keys: map[string]bool{}},
	}
	var err error
	l.rt, err = l.bot.open(ctx, store)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- l.rt.Run(ctx) }()
	l.idle()
	_, err = l.rt.Session(threadChat).Post(ctx, agent.Incoming{
		Text: "in the thread", Route: movedThread, ID: "in the thread",
	})
	require.NoError(t, err)
	_, err = l.rt.Session(heldChat).Post(ctx, agent.Incoming{
		Text: "this is known", ID: "hold this",
	})
	require.NoError(t, err)
	l.idle()
	l.showAll()
	require.NoError(t, l.rt.Shutdown(ctx))
	require.NoError(t, <-ended)
	for name, texts := range l.bot.replies {
		l.bot.replies[name] = parts(texts)
	}
	l.show("replies", l.bot.replies, nil)
	return l.text.String(), l.bot.keys
}

// A bot is killed with work in every state: replies that are held up, sub-agents under way and
// queued with their files, a thread that is bound, an archived conversation. Its store is moved,
// from a directory to a database or back, and the bot goes on there exactly as it does where it
// was.
func TestMovedBot(t *testing.T) {
	s := theServer(t)
	move := func(t *testing.T, from, to *session.Store) {
		t.Helper()
		report, err := storecopy.Copy(t.Context(), from, to, storecopy.Options{})
		require.NoError(t, err)
		t.Logf("%+v", report)
		assert.Empty(t, report.Unknown)
		assert.NotZero(t, report.Archived)
		assert.NotZero(t, report.Files)
		assert.Equal(t, 6, report.Members)
		require.NoError(t, from.Close())
		require.NoError(t, to.Close())
	}
	compare := func(t *testing.T, held map[string]bool, original, moved *session.Store) {
		t.Helper()
		want, keys := liveAgain(t, original)
		got, movedKeys := liveAgain(t, moved)
		assert.Equal(t, want, got)
		assert.Subset(t, slices.Collect(maps.Keys(movedKeys)), slices.Collect(maps.Keys(held)))
		assert.Subset(t, slices.Collect(maps.Keys(keys)), slices.Collect(maps.Keys(held)))
		for _, text := range []string{
			"interrupted", "slow 4", "slow4", "in the thread", "hold this", "painter", "behind",
		} {
			assert.Contains(t, want, text)
		}
	}
	open := func(t *testing.T, place, schema string) *session.Store {
		t.Helper()
		store, err := openMoved(t.Context(), place, schema)
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		return store
	}
	t.Run("directory to database", func(t *testing.T) {
		dir, schema := filepath.Join(t.TempDir(), "state"), freshSchema()
		held := liveFirst(t, dir)
		kept := filepath.Join(t.TempDir(), "kept")
		require.NoError(t, os.CopyFS(kept, os.DirFS(dir)))
		move(t, open(t, dir, ""), open(t, s.DSN(), schema))
		compare(t, held, open(t, kept, ""), open(t, s.DSN(), schema))
	})
	t.Run("database to directory", func(t *testing.T) {
		dir, schema := filepath.Join(t.TempDir(), "state"), freshSchema()
		held := liveFirst(t, s.DSN()+" "+schema)
		move(t, open(t, s.DSN(), schema), open(t, dir, ""))
		compare(t, held, open(t, s.DSN(), schema), open(t, dir, ""))
	})
}
