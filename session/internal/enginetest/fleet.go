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
	logs    fleetLogs

	mu      sync.Mutex
	members [fleetSize]*Process
	posted  map[string]chan bool       // what members have said of a post
	read    int64                      // bytes of the witness that said knows
	said    map[string]map[string]bool // by chat: what was said there
	done    map[string]int             // by chat: how many clerks were told of
	asked   [fleetChats]int            // the questions of each chat that are on record
	next    [fleetChats]int            // the question of each chat that goes before the next kill
}

// maxWaiting is how many clerks of a chat may be under way before a person asks on: fewer than a
// session may have children.
const maxWaiting = 4

// NewFleet starts three processes of a bot, with the lease of the Engine.
func (e Engine) NewFleet(t *testing.T, at Place) *Fleet {
	t.Helper()
	f := &Fleet{
		t: t, e: e, at: at, posted: map[string]chan bool{}, logs: newFleetLogs(t),
		said: map[string]map[string]bool{}, done: map[string]int{},
	}
	f.witness = filepath.Join(f.logs.dir, "witness")
	for i := range f.members {
		f.start(i)
	}
	return f
}

// start starts the i-th process, again if there was one before.
func (f *Fleet) start(i int) {
	begun := make(chan bool, 1)
	log := f.logs.open(f.t, processLog(i))
	defer func() { _ = log.Close() }() // the child has it
	f.logs.say(f.t, "start p%d", i)
	m := start(f.t, func(line string) { f.take(line, begun) }, log, "bot", f.at.URL,
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
	f.awaitTurns()
	i := round % len(f.members)
	f.mu.Lock()
	m := f.members[i]
	f.members[i] = nil
	f.mu.Unlock()
	f.logs.say(f.t, "kill p%d", i)
	m.Kill()
	f.noteTurns()
	if round%2 == 0 {
		pause(f.e.Lease + 2*time.Second)
	}
	f.start(i)
}

// StopOne has a process of the fleet stand still for longer than its lease.
func (f *Fleet) StopOne(round int) {
	f.awaitTurns()
	i := round % len(f.members)
	f.mu.Lock()
	m := f.members[i]
	f.mu.Unlock()
	f.logs.say(f.t, "stop p%d", i)
	goOn := m.Stop(f.t)
	pause(f.e.Lease + 3*time.Second)
	f.logs.say(f.t, "go on p%d", i)
	goOn()
	f.noteTurns()
}

// noteTurns notes which question of each chat is surely posted from now on: one may be under way.
func (f *Fleet) noteTurns() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for chat, n := range f.asked {
		f.next[chat] = n + 2
	}
}

// awaitTurns waits until each chat has had the answer to a question that was posted after the last
// kill, so that the turns which that has cut have ended since. A message has three attempts, and
// this test is not to use them up: it kills faster than a busy machine answers. It fails the test
// if nothing is said any more.
func (f *Fleet) awaitTurns() {
	f.t.Helper()
	last, since := int64(-1), time.Now()
	for ; ; pause(10 * time.Millisecond) {
		f.mu.Lock()
		f.readWitness()
		said, waits := f.read, ""
		for chat, n := range f.next {
			key := ChatKey(chat).String()
			if n > 0 && !f.said[key][fmt.Sprint("asked ", n)] {
				waits = key
			}
		}
		f.mu.Unlock()
		if waits == "" {
			return
		}
		if said > last {
			last, since = said, time.Now()
		}
		if time.Since(since) > stillness {
			f.t.Fatalf("%s does not go on after a kill", waits)
		}
	}
}

// stillness is for how long a test waits while nothing is said.
const stillness = 2 * time.Minute

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

// askNext asks the next question of a chat.
func (f *Fleet) askNext(chat int) {
	f.mu.Lock()
	n := f.asked[chat] + 1
	f.mu.Unlock()
	f.ask(chat, n)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[chat] = n
}

// waiting returns how many clerks of a chat were not told of yet.
func (f *Fleet) waiting(chat int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readWitness()
	return f.asked[chat] - f.done[ChatKey(chat).String()]
}

// readWitness reads what was said since the last time. The caller holds the lock.
func (f *Fleet) readWitness() {
	file, err := os.Open(f.witness)
	if err != nil {
		return // nothing was said
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
		if f.said[r.chat] == nil {
			f.said[r.chat] = map[string]bool{}
		}
		for _, said := range r.said {
			if strings.HasPrefix(said, "done ") && !f.said[r.chat][said] {
				f.done[r.chat]++
			}
			f.said[r.chat][said] = true
		}
	}
}

// Under has people ask in every chat while so many rounds of disturb go on, and fails the test
// unless each question was answered once and each clerk told of once, each under one key and in
// order; no clerk begins twice, and each has ended.
func (f *Fleet) Under(rounds int, disturb func(round int)) {
	f.t.Helper()
	defer f.logs.report(f.t)
	stop := make(chan struct{})
	var people sync.WaitGroup
	for chat := range f.asked {
		people.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(rand.N(300 * time.Millisecond)): //nolint:gosec // any will do
				}
				if f.waiting(chat) < maxWaiting {
					f.askNext(chat)
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
	f.waitForAll(f.asked[:])
	f.t.Logf("%d rounds, questions by chat: %v", rounds, f.asked)
	f.verify(f.asked[:])
}
