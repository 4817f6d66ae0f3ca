package natsstore_test

import (
	"context"
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
	"github.com/offshoot-sdk/offshoot/session/storecopy/storecopytest"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// A movedBot is a bot whose store is moved. In its first life its sub-agents hang, and the replies
// to one chat are held up.
type movedBot struct {
	first bool

	mu   sync.Mutex
	seen map[string][]string // what was said, by chat
}

var (
	movedHeld  = session.Must(session.DirectKey("main", "term", "held"))
	movedReset = session.Must(session.DirectKey("main", "term", "reset"))
	movedWork  = session.Must(session.DirectKey("main", "term", "work"))
	movedTask  = regexp.MustCompile(`task: (\w+ \d)`)
)

func (b *movedBot) open(ctx context.Context, store *session.Store) (*agent.Runtime, error) {
	return agent.Open(ctx, agent.Config{
		Store: store, Runner: agent.RunnerFunc(b.run), Reply: b.reply,
		Rules: policy.Rules{Subagents: policy.Subagents{MaxConcurrent: 2}},
	})
}

func (b *movedBot) run(ctx context.Context, t *agent.Turn) (agent.Result, error) {
	if t.Run == "" { // a part for each message, since a turn may have several
		var heard []string
		for _, m := range t.Messages[len(t.Messages)-t.New:] {
			text := m.Text
			if task := movedTask.FindStringSubmatch(text); m.Internal && task != nil {
				text = fmt.Sprint(task[1], " cut off: ", strings.Contains(text, "interrupted"))
			}
			heard = append(heard, "heard "+text)
		}
		return agent.Result{Text: strings.Join(heard, "\n")}, nil
	}
	if b.first {
		say("asking %s", t.Run)
		<-ctx.Done()
		return agent.Result{}, ctx.Err()
	}
	text := t.Messages[0].Text
	text = "did" + text[strings.LastIndexByte(text, ':')+1:]
	err := fs.WalkDir(t.Files, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(t.Files, path)
		text += " with " + string(data)
		return err
	})
	b.note(movedWork, text)
	return agent.Result{Text: text}, err
}

func (b *movedBot) note(chat session.Key, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen[chat.String()] = append(b.seen[chat.String()], strings.Split(text, "\n")...)
}

func (b *movedBot) reply(_ context.Context, d agent.Delivery) error {
	if b.first && d.To == movedHeld {
		say("held %s", d.Key)
		return spawn.ErrBusy
	}
	b.note(d.To, d.Reply.Text)
	return nil
}

// movedChild is the first life of the bot: in a directory, or in streams at an address.
func movedChild(ctx context.Context, args []string) {
	b := &movedBot{first: true, seen: map[string][]string{}}
	if err := b.live(ctx, args); err != nil {
		say("failed: %v", err)
	}
	select {}
}

func (b *movedBot) live(ctx context.Context, place []string) error {
	open := func() (*session.Store, error) { return dirstore.Open(place[0]) }
	if len(place) == 2 {
		o := natsstore.Options{Name: place[1], TrustSync: true}
		open = func() (*session.Store, error) { return natsstore.Open(ctx, place[0], o) }
	}
	store, err := open()
	if err != nil {
		return err
	}
	rt, err := b.open(ctx, store)
	if err != nil {
		return err
	}
	go func() { say("failed: %v", rt.Run(ctx)) }()
	chat := rt.Session(movedReset)
	for _, text := range []string{"before", "behind"} {
		_, err := chat.Post(ctx, agent.Incoming{Text: text, ID: text})
		if err == nil {
			err = chat.Idle(ctx)
		}
		if err == nil && text == "before" {
			err = chat.Reset(ctx)
		}
		if err != nil {
			return err
		}
	}
	for i := range 4 {
		_, err := rt.Session(movedWork).Spawn(ctx, agent.Task{
			Text: fmt.Sprint("slow ", i), Label: fmt.Sprint("slow ", i), Announce: true,
			Attachments: []agent.Attachment{{
				Name: "file", Reader: strings.NewReader(fmt.Sprint("bytes of slow ", i)),
			}},
		})
		if err != nil {
			return err
		}
	}
	_, err = rt.Session(movedHeld).Post(ctx, agent.Incoming{Text: "hold this", ID: "hold this"})
	if err == nil {
		say("ready")
	}
	return err
}

// liveFirst lets a bot live for the first time, and kills it.
func liveFirst(t *testing.T, place ...string) {
	t.Helper()
	lines := make(chan string, 100)
	p := startChild(t, func(line string) { lines <- line }, append([]string{"moved"}, place...)...)
	for want := map[string]int{"asking": 2, "held": 1, "ready": 1}; len(want) > 0; {
		select {
		case line := <-lines:
			what, _, _ := strings.Cut(line, " ")
			require.NotEqual(t, "failed:", what, line)
			if want[what]--; want[what] <= 0 {
				delete(want, what)
			}
		case <-time.After(time.Minute):
			require.Fail(t, "the bot does not get ready", "%v", want)
		}
	}
	p.kill()
}

// liveAgain has a bot go on with a store to its end, and returns what can be seen of it.
func liveAgain(t *testing.T, store *session.Store) map[string][]string {
	t.Helper()
	ctx := t.Context()
	b := &movedBot{seen: map[string][]string{}}
	rt, err := b.open(ctx, store)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	_, err = rt.Session(movedHeld).Post(ctx, agent.Incoming{Text: "again", ID: "hold this"})
	require.NoError(t, err)
	for _, chat := range []session.Key{movedHeld, movedReset, movedWork} {
		require.NoError(t, rt.Session(chat).Idle(ctx))
		page, err := rt.Session(chat).History(ctx, agent.HistoryQuery{})
		require.NoError(t, err)
		for _, line := range page.Lines {
			if line.Message.Role == session.MessageAssistant {
				b.note(chat, "history: "+strings.ReplaceAll(line.Message.Text, "\n", "\nhistory: "))
			}
		}
		runs, err := rt.Session(chat).Tree(ctx)
		require.NoError(t, err)
		for _, run := range runs {
			b.note(chat, fmt.Sprintf("run %s %s %v", run.ID, run.Label, run.Status))
		}
	}
	require.NoError(t, rt.Shutdown(ctx))
	require.NoError(t, <-ended)
	for _, texts := range b.seen {
		slices.Sort(texts)
	}
	return b.seen
}

func openDir(t *testing.T, dir string) *session.Store {
	t.Helper()
	store, err := dirstore.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// checkMoved fails the test unless what was seen of a bot has all states in which it was killed.
func checkMoved(t *testing.T, seen map[string][]string) {
	t.Helper()
	all := fmt.Sprint(seen)
	for _, text := range []string{
		"history: heard behind", "heard hold this", "cut off: true", "slow 2 cut off: false",
		"did slow 2 with bytes of slow 2", "did slow 3 with bytes of slow 3",
	} {
		require.Contains(t, all, text)
	}
}

// A bot is killed with a reply that is held up, sub-agents under way and queued with their files,
// and an archived conversation. Its store is moved from a directory into NATS, and from there into
// another directory, and the bot goes on in each as it does where it was.
func TestMovedBot(t *testing.T) {
	dir, kept := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "kept")
	liveFirst(t, dir)
	require.NoError(t, os.CopyFS(kept, os.DirFS(dir)))
	from, moved, back := openDir(t, dir), empty(t), openDir(t, filepath.Join(t.TempDir(), "back"))
	storecopytest.CopyAll(t, from, moved)
	storecopytest.CopyAll(t, moved, back)
	want := liveAgain(t, openDir(t, kept))
	checkMoved(t, want)
	assert.Equal(t, want, liveAgain(t, moved))
	assert.Equal(t, want, liveAgain(t, back))
}

// A bot that was killed in NATS goes on in a directory as it does there, although its logs have
// other sequences.
func TestBotMovedOutOfNATS(t *testing.T) {
	s := theServer(t)
	o := natsstore.Options{Name: freshName(t, s), TrustSync: true}
	liveFirst(t, s.ClientURL(), o.Name)
	from, moved := open(t, s, o), openDir(t, filepath.Join(t.TempDir(), "moved"))
	report, err := storecopy.Copy(t.Context(), from, moved, storecopy.Options{})
	require.NoError(t, err)
	require.NotZero(t, report.Renumbered)
	want := liveAgain(t, from)
	checkMoved(t, want)
	assert.Equal(t, want, liveAgain(t, moved))
}
