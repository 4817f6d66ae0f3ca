//go:build unix

package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
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
)

// A movedBot is a bot whose store is moved. In its first life the slow tasks hang and the replies
// to one chat are held up.
type movedBot struct {
	first bool

	mu      sync.Mutex
	replies map[string][]string // by the session that they are of
	keys    map[string]bool     // of the deliveries
}

func newMovedBot(first bool) *movedBot {
	return &movedBot{first: first, replies: map[string][]string{}, keys: map[string]bool{}}
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
		Say("asking %s", t.Run)
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
		Say("held %s", d.Key)
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

// movedBot is the first life of a bot, which is killed when it has said that it is ready. Its
// arguments are a Place, or a directory.
func (e Engine) movedBot(ctx context.Context, args []string) {
	at := Place{URL: args[0]}
	if len(args) > 1 {
		at.Name = args[1]
	}
	if err := newMovedBot(true).firstLife(ctx, e, at); err != nil {
		Say("failed: %v", err)
	}
	select {}
}

func (b *movedBot) firstLife(ctx context.Context, e Engine, at Place) error {
	store, err := e.openMoved(ctx, at)
	if err != nil {
		return err
	}
	rt, err := b.open(ctx, store)
	if err != nil {
		return err
	}
	go func() { Say("failed: %v", rt.Run(ctx)) }()
	post := func(chat session.Key, text string) error {
		_, err := rt.Session(chat).Post(ctx, agent.Incoming{Text: text, ID: text})
		return err
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
		name := fmt.Sprint("slow", i)
		file := agent.Attachment{Name: name, Reader: strings.NewReader("bytes of " + name)}
		steps = append(steps, func() error {
			_, err := rt.Session(workChat).Spawn(ctx, agent.Task{
				Text: fmt.Sprint("slow ", i), Label: fmt.Sprint("slow ", i), Announce: i != 4,
				Attachments: []agent.Attachment{file},
			})
			return err
		})
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	Say("ready")
	return nil
}

// openMoved opens the Store at a Place: one without a name is a directory.
func (e Engine) openMoved(ctx context.Context, at Place) (*session.Store, error) {
	if at.Name == "" {
		return dirstore.Open(at.URL)
	}
	return e.Open(ctx, at, "", 0)
}

func (e Engine) openMovedFor(t *testing.T, at Place) *session.Store {
	t.Helper()
	store, err := e.openMoved(t.Context(), at)
	must(t, "open", err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// liveFirst lets a bot live for the first time, and kills it. It returns the keys of the replies
// that were held up.
func liveFirst(t *testing.T, at ...string) (held map[string]bool) {
	t.Helper()
	lines := make(chan string, 100)
	p := Start(t, func(line string) { lines <- line }, "moved", at...)
	defer p.Kill()
	held = map[string]bool{}
	ready, asking := false, map[string]bool{}
	for !ready || len(held) == 0 || len(asking) < 2 {
		select {
		case line := <-lines:
			what, rest, _ := strings.Cut(line, " ")
			switch what {
			case "ready":
				ready = true
			case "held":
				held[rest] = true
			case "asking":
				asking[rest] = true
			case "failed:":
				t.Fatal(line)
			}
		case <-time.After(patience):
			t.Fatalf("the bot is not ready: %t, held %v, asking %v", ready, held, asking)
		}
	}
	return held
}

// TestMovedIn kills a bot with work in every state: replies that are held up, sub-agents under way
// and queued with their files, a thread that is bound, an archived conversation. Its store is moved
// from a directory to an empty Place of the engine, and from there into another directory, and the
// bot goes on in each exactly as it does where it was.
func (e Engine) TestMovedIn(t *testing.T, to Place) {
	t.Helper()
	dir, kept := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "kept")
	back := Place{URL: filepath.Join(t.TempDir(), "back")}
	held := liveFirst(t, dir)
	must(t, "copy the directory", os.CopyFS(kept, os.DirFS(dir)))
	e.move(t, Place{URL: dir}, to)
	e.move(t, to, back)
	e.liveOnAlike(t, held, Place{URL: kept}, to, back)
}

// TestMovedOut kills such a bot in a Place of the engine. Its store is moved into a directory, and
// the bot goes on there exactly as it does where it was.
func (e Engine) TestMovedOut(t *testing.T, from Place) {
	t.Helper()
	dir := Place{URL: filepath.Join(t.TempDir(), "state")}
	held := liveFirst(t, from.URL, from.Name)
	report := e.move(t, from, dir)
	check(t, (report.Renumbered == 0) == e.Dense, "%d logs have other sequences", report.Renumbered)
	e.liveOnAlike(t, held, from, dir)
}

func (e Engine) move(t *testing.T, from, to Place) storecopy.Report {
	t.Helper()
	source, target := e.openMovedFor(t, from), e.openMovedFor(t, to)
	report, err := storecopy.Copy(t.Context(), source, target, storecopy.Options{})
	must(t, "copy", err)
	t.Logf("%+v", report)
	check(t, len(report.Unknown) == 0 && report.Archived > 0 && report.Files > 0 &&
		report.Members == 6, "not everything was copied: %+v", report)
	must(t, "close the source", source.Close())
	must(t, "close the target", target.Close())
	return report
}

// liveOnAlike fails the test unless the bot goes on in each Place as it does in the first one.
func (e Engine) liveOnAlike(t *testing.T, held map[string]bool, original Place, moved ...Place) {
	t.Helper()
	want := e.liveAgain(t, original, held)
	for _, text := range []string{
		"interrupted", "slow 4", "slow4", "in the thread", "hold this", "painter", "behind",
	} {
		check(t, strings.Contains(want, text), "nothing is seen of %q", text)
	}
	for _, at := range moved {
		got := e.liveAgain(t, at, held)
		check(t, got == want, "the bot goes on in another way: %s", firstDifference(got, want))
	}
}

func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is %q, want %q", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}

// liveAgain has a bot go on with a Store to its end, and returns all that can be seen of it. It
// fails the test unless the replies that were held up come under their keys.
func (e Engine) liveAgain(t *testing.T, at Place, held map[string]bool) (seen string) {
	t.Helper()
	ctx, store := t.Context(), e.openMovedFor(t, at)
	l := &secondLife{t: t, known: namesIn(t, store), bot: newMovedBot(false)}
	var err error
	l.rt, err = l.bot.open(ctx, store)
	must(t, "open a Runtime", err)
	ended := make(chan error, 1)
	go func() { ended <- l.rt.Run(ctx) }()
	l.idle()
	_, err = l.rt.Session(threadChat).Post(ctx, agent.Incoming{
		Text: "in the thread", Route: movedThread, ID: "in the thread",
	})
	must(t, "post", err)
	_, err = l.rt.Session(heldChat).Post(ctx, agent.Incoming{Text: "known", ID: "hold this"})
	must(t, "post", err)
	l.idle()
	l.showAll()
	must(t, "shutdown", l.rt.Shutdown(ctx))
	must(t, "run", <-ended)
	must(t, "close", store.Close())
	for name, texts := range l.bot.replies {
		l.bot.replies[name] = sayings(texts)
	}
	l.show("replies", l.bot.replies, nil)
	for key := range held {
		check(t, l.bot.keys[key], "%s does not come under its key", key)
	}
	return l.text.String()
}

// A secondLife is a bot that goes on, and what can be seen of it.
type secondLife struct {
	t     *testing.T
	rt    *agent.Runtime
	bot   *movedBot
	known map[string]bool
	text  strings.Builder
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
		must(t, "list the logs", err)
		for e, err := range store.Journal.Read(t.Context(), h.Root, 0) {
			must(t, "read", err)
			for _, id := range uuids.FindAllString(string(e.Payload.(session.Raw)), -1) {
				names[id] = true
			}
		}
	}
	return names
}

// show adds a value, without what is not the same in another life.
func (l *secondLife) show(name string, v any, err error) {
	must(l.t, name, err)
	line, err := json.MarshalIndent(v, "", "\t")
	must(l.t, name, err)
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
		must(l.t, "idle", l.rt.Session(chat).Idle(l.t.Context()))
	}
}

// sayings returns what texts say, in an order of its own.
func sayings(texts []string) (all []string) {
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
			said[role] = sayings(texts)
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
