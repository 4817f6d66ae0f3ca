package pgstore_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// runtimeEnv makes the test binary a process of a bot: its value is the connection string, the
// schema, the name of the process, the file of its witness and the lease.
const runtimeEnv = "PGSTORE_TEST_RUNTIME"

const (
	runtimeLease = 3 * time.Second
	runtimeChats = 4
)

func chatKey(chat int) session.Key {
	return session.Must(session.DirectKey("main", "term", fmt.Sprint(chat)))
}

// A witnessed is a process of a bot, which says in a file what it does. A person asks questions in
// a chat; the bot has a clerk for each, says so, and says what became of the clerk.
type witnessed struct{ file *os.File }

func runtimeChild() {
	part := strings.Split(os.Getenv(runtimeEnv), " ")
	ctx := context.Background()
	lease, err := time.ParseDuration(part[4])
	if err != nil {
		fmt.Println("failed:", err) //nolint:forbidigo // that of a child process
		return
	}
	store, err := pgstore.Open(ctx, part[0], memberOptions(part[1], part[2], lease))
	if err != nil {
		fmt.Println("failed:", err) //nolint:forbidigo // that of a child process
		return
	}
	file, err := os.OpenFile(part[3], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Println("failed:", err) //nolint:forbidigo // that of a child process
		return
	}
	w := &witnessed{file}
	rt, err := agent.Open(ctx, agent.Config{
		Store: store, Runner: agent.RunnerFunc(w.run), Reply: w.reply,
	})
	if err != nil {
		fmt.Println("failed:", err) //nolint:forbidigo // that of a child process
		return
	}
	go listenToPosts(ctx, rt)
	err = rt.Run(ctx)
	fmt.Println("failed:", err) //nolint:forbidigo // that of a child process
}

// listenToPosts posts what stands on the lines of the input, and says when that is on record.
func listenToPosts(ctx context.Context, rt *agent.Runtime) {
	fmt.Println("begun") //nolint:forbidigo // that of a child process
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var chat, n int
		_, _ = fmt.Sscan(in.Text(), &chat, &n)
		go func() {
			_, err := rt.Session(chatKey(chat)).Post(ctx, agent.Incoming{
				ID: fmt.Sprint("message ", n), Text: fmt.Sprint("question ", n),
			})
			fmt.Println("posted", chat, n, err == nil) //nolint:forbidigo // that of a child process
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

// A fleet is the three processes of a bot.
type fleet struct {
	t       *testing.T
	s       *server
	schema  string
	witness string
	lease   time.Duration

	mu      sync.Mutex
	members []*member
	posted  map[string]chan bool       // what members have said of a post
	read    int64                      // bytes of the witness that done knows
	done    map[string]map[string]bool // by chat: what was told of clerks
	whole   bool                       // every run must have ended well
}

// maxWaiting is how many clerks of a chat may be under way before a person asks on: fewer than a
// session may have children.
const maxWaiting = 4

type member struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
}

// start starts the i-th process, again if there was one before.
func (f *fleet) start(i int) {
	m := &member{name: fmt.Sprint("p", i), cmd: exec.Command(os.Args[0])}
	m.cmd.Env = append(os.Environ(), runtimeEnv+"="+
		strings.Join([]string{f.s.DSN(), f.schema, m.name, f.witness, f.lease.String()}, " "))
	var err error
	m.in, err = m.cmd.StdinPipe()
	require.NoError(f.t, err)
	out, err := m.cmd.StdoutPipe()
	require.NoError(f.t, err)
	log, err := os.OpenFile(f.logOf(i), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(f.t, err)
	defer func() { _ = log.Close() }()
	m.cmd.Stderr = log
	require.NoError(f.t, m.cmd.Start())
	begun, ended := make(chan bool, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for in := bufio.NewScanner(out); in.Scan(); {
			f.take(in.Text(), begun)
		}
	}()
	f.t.Cleanup(func() {
		_ = m.cmd.Process.Kill()
		<-ended
		_ = m.cmd.Wait()
	})
	select {
	case <-begun:
	case <-time.After(time.Minute):
		require.Fail(f.t, "a process does not begin")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members[i] = m
}

// logOf returns the file with what the i-th process has logged.
func (f *fleet) logOf(i int) string { return fmt.Sprint(f.witness, ".", i, ".log") }

func (f *fleet) take(line string, begun chan<- bool) {
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

// kill kills the i-th process.
func (f *fleet) kill(i int) {
	f.mu.Lock()
	m := f.members[i]
	f.members[i] = nil
	f.mu.Unlock()
	_ = m.cmd.Process.Kill()
}

// ask has a question posted, by one process after another under the same ID, until one says that it
// is on record.
func (f *fleet) ask(chat, n int) {
	name, said := fmt.Sprint(chat, " ", n), make(chan bool, 1)
	f.mu.Lock()
	f.posted[name] = said
	f.mu.Unlock()
	for {
		f.mu.Lock()
		m := f.members[rand.IntN(len(f.members))] //nolint:gosec // any will do
		f.mu.Unlock()
		if m == nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		_, _ = fmt.Fprintln(m.in, name)
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
func (f *fleet) waiting(chat, asked int) int {
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
		part := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(part) != 5 {
			continue
		}
		for said := range strings.SplitSeq(part[4], ";") {
			if strings.HasPrefix(said, "done ") {
				if f.done[part[1]] == nil {
					f.done[part[1]] = map[string]bool{}
				}
				f.done[part[1]][said] = true
			}
		}
	}
	return asked - len(f.done[chatKey(chat).String()])
}

// A toldChat is what the replies of one chat say: "asked 1", "done 1".
type toldChat struct {
	order []string                   // by their first arrivals
	keys  map[string]map[string]bool // of the deliveries of each
}

// all returns what the witness has of each chat, and how often each run began.
func (f *fleet) all() (chats map[string]*toldChat, began map[string]int) {
	text, err := os.ReadFile(f.witness)
	require.NoError(f.t, err)
	chats, began = map[string]*toldChat{}, map[string]int{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if run, ok := strings.CutPrefix(line, "began "); ok {
			began[run]++
			continue
		}
		part := strings.Split(line, "\t")
		require.Len(f.t, part, 5, line)
		c := chats[part[1]]
		if c == nil {
			c = &toldChat{keys: map[string]map[string]bool{}}
			chats[part[1]] = c
		}
		for said := range strings.SplitSeq(part[4], ";") {
			if c.keys[said] == nil {
				c.keys[said] = map[string]bool{}
				c.order = append(c.order, said)
			}
			c.keys[said][part[2]] = true
		}
	}
	return chats, began
}

// newFleet starts three processes of a bot.
func newFleet(t *testing.T, lease time.Duration) *fleet {
	t.Helper()
	f := &fleet{
		t: t, s: ownServer(t), schema: freshSchema(), members: make([]*member, 3),
		witness: filepath.Join(t.TempDir(), "witness"), posted: map[string]chan bool{},
		done: map[string]map[string]bool{}, lease: lease,
	}
	for i := range f.members {
		f.start(i)
	}
	return f
}

// under has people ask in every chat while so many rounds of disturb go on, and fails the test
// unless each question was answered and each clerk told of.
func (f *fleet) under(rounds int, disturb func(round int)) {
	stop := make(chan struct{})
	asked := make([]int, runtimeChats)
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
		time.Sleep(time.Second + rand.N(time.Second)) //nolint:gosec // any will do
		disturb(round)
	}
	close(stop)
	people.Wait()
	f.waitForAll(asked)
	f.t.Logf("%d rounds, questions by chat: %v", rounds, asked)
	f.verify(asked)
}

// Three processes of a bot share a schema, and one after another is killed under load, and started
// again. Every question is answered once and every clerk is told of once, each under one key and in
// order; no clerk begins twice, and each has ended.
func TestKilledRuntimes(t *testing.T) {
	f := newFleet(t, runtimeLease)
	f.under(rounds(3, 100), func(round int) {
		i := round % len(f.members)
		f.kill(i)
		if round%2 == 0 { // else its lease has not lapsed
			time.Sleep(runtimeLease + 2*time.Second)
		}
		f.start(i)
	})
}

// The server of three processes of a bot is killed under load, and started again. The same holds,
// and no clerk is interrupted.
func TestServerKilledUnderRuntimes(t *testing.T) {
	f := newFleet(t, time.Minute)
	f.whole = true
	f.under(rounds(3, 50), func(round int) {
		for _, pid := range f.s.PIDs() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-f.s.Exited()
		time.Sleep(time.Duration(round%3) * 500 * time.Millisecond)
		require.NoError(t, f.s.Start())
	})
}

// One process of a bot after another stands still under load for longer than its lease, and goes
// on. The same holds: what it was doing counts once, here or where the tree is now.
func TestStoppedRuntimes(t *testing.T) {
	f := newFleet(t, runtimeLease)
	f.under(rounds(2, 20), func(round int) {
		f.mu.Lock()
		m := f.members[round%len(f.members)]
		f.mu.Unlock()
		require.NoError(t, m.cmd.Process.Signal(syscall.SIGSTOP))
		time.Sleep(runtimeLease + 3*time.Second)
		require.NoError(t, m.cmd.Process.Signal(syscall.SIGCONT))
	})
	f.verifyEpochs()
}

// verifyEpochs fails the test if a reply of a former owner does not carry an older epoch than those
// that came before it of the next one.
func (f *fleet) verifyEpochs() {
	text, err := os.ReadFile(f.witness)
	require.NoError(f.t, err)
	late := 0
	last := map[string]uint64{}
	keys := map[string]uint64{}
	for line := range strings.Lines(string(text)) {
		part := strings.Split(line, "\t")
		if len(part) != 5 {
			continue
		}
		epoch, err := strconv.ParseUint(part[3], 10, 64)
		require.NoError(f.t, err)
		if epoch < last[part[1]] {
			late++
			assert.NotZero(f.t, keys[part[2]], "%s came late, and not by a later owner", line)
		}
		last[part[1]] = max(last[part[1]], epoch)
		keys[part[2]] = epoch
	}
	f.t.Logf("%d replies came from a former owner", late)
}

// waitForAll waits until the witness has everything that was asked. It fails the test if nothing
// comes any more, and says what is missing and how the processes see it.
func (f *fleet) waitForAll(asked []int) {
	const still = 2 * time.Minute
	all, last, since := 0, -1, time.Now()
	for _, n := range asked {
		all += 2 * n
	}
	for {
		chats, began := f.all()
		said := 0
		for _, c := range chats {
			said += len(c.order)
		}
		if said >= all {
			return
		}
		if said > last {
			last, since = said, time.Now()
		}
		if time.Since(since) > still {
			f.t.Logf("%d of %d were said, %d runs began", said, all, len(began))
			f.logMissing(asked, chats)
			require.Fail(f.t, "nothing is said any more")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// logMissing logs what the witness does not have of each chat, and the runs that have not ended.
func (f *fleet) logMissing(asked []int, chats map[string]*toldChat) {
	judge, err := agent.Open(f.t.Context(), agent.Config{
		Store:  f.s.open(f.t, memberOptions(f.schema, "judge", f.lease)),
		Runner: agent.RunnerFunc((&witnessed{}).run),
	})
	require.NoError(f.t, err)
	for chat, n := range asked {
		key := chatKey(chat)
		var missing []string
		for i := range 2 * n {
			said := fmt.Sprint([]string{"asked ", "done "}[i%2], i/2+1)
			if c := chats[key.String()]; c == nil || c.keys[said] == nil {
				missing = append(missing, said)
			}
		}
		f.t.Logf("%s was asked %d, and is missing %d: %q", key, n, len(missing),
			missing[:min(len(missing), 20)])
		if c := chats[key.String()]; c != nil {
			isWanted := func(s string) bool {
				return strings.HasPrefix(s, "asked ") || strings.HasPrefix(s, "done ")
			}
			f.t.Logf("it was told other things: %q", slices.DeleteFunc(c.order, isWanted))
		}
		runs, err := judge.Session(key).Runs(f.t.Context())
		f.t.Log(len(runs), err)
		for _, r := range runs {
			if !r.Status.Terminal() {
				f.t.Logf("%s is %v", r.Label, r.Status)
			}
		}
	}
	blocked, err := judge.Blocked(f.t.Context())
	f.t.Log("blocked:", blocked, err)
	for i := range f.members {
		text, err := os.ReadFile(f.logOf(i))
		require.NoError(f.t, err)
		f.t.Logf("the log of process %d ends with\n%s", i, text[max(0, len(text)-4000):])
	}
}

// verify fails the test unless the bot has kept its promises about so many questions in each chat.
func (f *fleet) verify(asked []int) {
	chats, began := f.all()
	for run, n := range began {
		assert.Equal(f.t, 1, n, "run %s began once", run)
	}
	store := f.s.open(f.t, memberOptions(f.schema, "judge", f.lease))
	judge, err := agent.Open(f.t.Context(), agent.Config{
		Store: store, Runner: agent.RunnerFunc((&witnessed{}).run),
	})
	require.NoError(f.t, err)
	for chat, n := range asked {
		key := chatKey(chat)
		c := chats[key.String()]
		require.NotNil(f.t, c)
		want := map[string]bool{}
		for i := range n {
			want[fmt.Sprint("asked ", i+1)], want[fmt.Sprint("done ", i+1)] = true, true
		}
		assert.Equal(f.t, want, everyKey(c.keys), "%s", key)
		last := 0
		for _, said := range c.order {
			if rest, ok := strings.CutPrefix(said, "asked "); ok {
				i, _ := strconv.Atoi(rest)
				assert.Equal(f.t, last+1, i, "the replies of %s are in order", key)
				last = i
			} else {
				i, _ := strconv.Atoi(strings.TrimPrefix(said, "done "))
				assert.LessOrEqual(f.t, i, last, "%s", key)
			}
		}
		for said, keys := range c.keys {
			assert.Len(f.t, keys, 1, "%s: %s came under one key", key, said)
		}
		runs, err := judge.Session(key).Runs(f.t.Context())
		require.NoError(f.t, err)
		assert.Len(f.t, runs, n, "%s", key)
		for _, r := range runs {
			assert.True(f.t, r.Status.Terminal(), "%s is %v", r.Label, r.Status)
			assert.True(f.t, !f.whole || r.Status == spawn.StatusOK,
				"%s is %v: %s", r.Label, r.Status, r.Error)
		}
	}
}

func everyKey(m map[string]map[string]bool) map[string]bool {
	all := map[string]bool{}
	for k := range m {
		all[k] = true
	}
	return all
}
