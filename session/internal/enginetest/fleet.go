//go:build unix

package enginetest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
)

// The numbers of processes and of chats of a fleet.
const (
	fleetSize  = 3
	fleetChats = 4
)

// A witnessed is a process of a bot, which says in a file what it does. A person asks questions in
// a chat; the bot has a clerk for each, says so, and says what became of the clerk.
type witnessed struct{ file *os.File }

// bot is a process of a bot. Its arguments are a Place, its name, the file of its witness and the
// lease. It posts what stands on the lines of its input, and says when that is on record.
func (e Engine) bot(ctx context.Context, args []string) {
	rt, err := e.openBot(ctx, args)
	if err == nil {
		go listenToPosts(ctx, rt)
		err = rt.Run(ctx)
	}
	Say("failed: %v", err)
}

func (e Engine) openBot(ctx context.Context, args []string) (*agent.Runtime, error) {
	lease, err := time.ParseDuration(args[4])
	if err != nil {
		return nil, err
	}
	store, err := e.Open(ctx, Place{args[0], args[1]}, args[2], lease)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(args[3], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	w := &witnessed{file}
	return agent.Open(ctx, agent.Config{
		Store: store, Runner: agent.RunnerFunc(w.run), Reply: w.reply,
	})
}

func listenToPosts(ctx context.Context, rt *agent.Runtime) {
	Say("begun")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var chat, n int
		_, _ = fmt.Sscan(in.Text(), &chat, &n)
		go func() {
			_, err := rt.Session(ChatKey(chat)).Post(ctx, agent.Incoming{
				ID: fmt.Sprint("message ", n), Text: fmt.Sprint("question ", n),
			})
			Say("posted %d %d %t", chat, n, err == nil)
		}()
	}
}

func (w *witnessed) say(format string, args ...any) error {
	_, err := fmt.Fprintf(w.file, format+"\n", args...)
	return err
}

var (
	questionOf = regexp.MustCompile(`question (\d+)`)
	clerkOf    = regexp.MustCompile(`clerk (\d+)`)
)

func (w *witnessed) run(ctx context.Context, t *agent.Turn) (agent.Result, error) {
	if t.Run != "" {
		if err := w.say("began %s", t.Run); err != nil {
			return agent.Result{}, err
		}
		select {
		case <-time.After(rand.N(400 * time.Millisecond)): //nolint:gosec // any will do
		case <-ctx.Done():
		}
		return agent.Result{Text: "found"}, ctx.Err()
	}
	var said []string
	for _, m := range t.Messages[len(t.Messages)-t.New:] {
		if m.Internal {
			said = append(said, "done "+clerkOf.FindStringSubmatch(m.Text)[1])
			continue
		}
		n := questionOf.FindStringSubmatch(m.Text)[1]
		_, err := t.Spawn(ctx, agent.Task{
			Text: "look it up", Label: "clerk " + n, Key: "clerk " + n, Announce: true,
		})
		if err != nil {
			return agent.Result{}, err
		}
		said = append(said, "asked "+n)
	}
	return agent.Result{Text: strings.Join(said, ";")}, nil
}

func (w *witnessed) reply(_ context.Context, d agent.Delivery) error {
	return w.say("reply\t%s\t%s\t%d\t%s", d.To, d.Key, d.Epoch, d.Reply.Text)
}

// A Fleet is three processes of a bot.
type Fleet struct {
	// Whole says that every run must have ended well.
	Whole bool

	t       *testing.T
	e       Engine
	at      Place
	witness string
	logs    [fleetSize]tail

	mu      sync.Mutex
	members [fleetSize]*Process
	posted  map[string]chan bool       // what members have said of a post
	read    int64                      // bytes of the witness that done knows
	done    map[string]map[string]bool // by chat: what was told of clerks
}

// maxWaiting is how many clerks of a chat may be under way before a person asks on: fewer than a
// session may have children.
const maxWaiting = 4

// NewFleet starts three processes of a bot, with the lease of the Engine.
func (e Engine) NewFleet(t *testing.T, at Place) *Fleet {
	t.Helper()
	f := &Fleet{
		t: t, e: e, at: at, posted: map[string]chan bool{},
		witness: filepath.Join(t.TempDir(), "witness"), done: map[string]map[string]bool{},
	}
	for i := range f.members {
		f.start(i)
	}
	return f
}

// start starts the i-th process, again if there was one before.
func (f *Fleet) start(i int) {
	begun := make(chan bool, 1)
	m := start(f.t, func(line string) { f.take(line, begun) }, &f.logs[i], "bot", f.at.URL,
		f.at.Name, fmt.Sprint("p", i), f.witness, f.e.Lease.String())
	select {
	case <-begun:
	case <-time.After(patience):
		f.t.Fatal("a process does not begin")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members[i] = m
}

func (f *Fleet) take(line string, begun chan<- bool) {
	if line == "begun" {
		begun <- true
		return
	}
	var chat, n int
	var ok bool
	if c, _ := fmt.Sscanf(line, "posted %d %d %t", &chat, &n, &ok); c < 3 {
		f.t.Log(line)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case f.posted[fmt.Sprint(chat, " ", n)] <- ok:
	default: // another process has said so
	}
}

// KillOne kills a process of the fleet in each round, another one each time, and starts it again:
// every second time before its lease has lapsed.
func (f *Fleet) KillOne(round int) {
	i := round % len(f.members)
	f.mu.Lock()
	m := f.members[i]
	f.members[i] = nil
	f.mu.Unlock()
	m.Kill()
	if round%2 == 0 {
		pause(f.e.Lease + 2*time.Second)
	}
	f.start(i)
}

// StopOne has a process of the fleet stand still for longer than its lease.
func (f *Fleet) StopOne(round int) {
	f.mu.Lock()
	m := f.members[round%len(f.members)]
	f.mu.Unlock()
	must(f.t, "stop", m.Process.Signal(syscall.SIGSTOP))
	pause(f.e.Lease + 3*time.Second)
	must(f.t, "go on", m.Process.Signal(syscall.SIGCONT))
}

// ask has a question posted, by one process after another under the same ID, until one says that it
// is on record.
func (f *Fleet) ask(chat, n int) {
	name, said := fmt.Sprint(chat, " ", n), make(chan bool, 1)
	f.mu.Lock()
	f.posted[name] = said
	f.mu.Unlock()
	for {
		f.mu.Lock()
		m := f.members[rand.IntN(len(f.members))] //nolint:gosec // any will do
		f.mu.Unlock()
		if m == nil {
			pause(10 * time.Millisecond)
			continue
		}
		m.Tell(name)
		select {
		case ok := <-said:
			if ok {
				return
			}
		case <-time.After(2 * time.Second):
		}
	}
}

// waiting returns how many of so many clerks of a chat were not told of yet.
func (f *Fleet) waiting(chat, asked int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := os.Open(f.witness)
	if err != nil {
		return asked // nothing was told
	}
	defer func() { _ = file.Close() }()
	text, _ := io.ReadAll(io.NewSectionReader(file, f.read, 1<<30))
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	f.read += int64(len(text))
	for line := range strings.Lines(string(text)) {
		r, ok := parseReply(line)
		if !ok {
			continue
		}
		for _, said := range r.said {
			if strings.HasPrefix(said, "done ") {
				if f.done[r.chat] == nil {
					f.done[r.chat] = map[string]bool{}
				}
				f.done[r.chat][said] = true
			}
		}
	}
	return asked - len(f.done[ChatKey(chat).String()])
}

// Under has people ask in every chat while so many rounds of disturb go on, and fails the test
// unless each question was answered once and each clerk told of once, each under one key and in
// order; no clerk begins twice, and each has ended.
func (f *Fleet) Under(rounds int, disturb func(round int)) {
	f.t.Helper()
	stop := make(chan struct{})
	asked := make([]int, fleetChats)
	var people sync.WaitGroup
	for chat := range asked {
		people.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(rand.N(300 * time.Millisecond)): //nolint:gosec // any will do
				}
				if f.waiting(chat, asked[chat]) < maxWaiting {
					f.ask(chat, asked[chat]+1)
					asked[chat]++
				}
			}
		})
	}
	for round := range rounds {
		pause(time.Second + rand.N(time.Second)) //nolint:gosec // any will do
		disturb(round)
	}
	close(stop)
	people.Wait()
	f.waitForAll(asked)
	f.t.Logf("%d rounds, questions by chat: %v", rounds, asked)
	f.verify(asked)
}
