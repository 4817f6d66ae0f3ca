package natsstore_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// fleetChats is the number of chats in which tasks are asked for.
const fleetChats = 4

// botChild is a process of a bot, which says in a file what it does. It spawns what stands on the
// lines of its input, under the name of the task as the key, and says when that is on record.
func botChild(ctx context.Context, args []string) {
	store, err := natsstore.Open(ctx, args[0], natsstore.Options{
		Process: args[1], Lease: childLease, TrustSync: true,
	})
	if err != nil {
		say("failed: %v", err)
		return
	}
	file, err := os.OpenFile(args[2], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		say("failed: %v", err)
		return
	}
	witness := func(format string, args ...any) { _, _ = fmt.Fprintf(file, format+"\n", args...) }
	rt, err := agent.Open(ctx, agent.Config{
		Store: store,
		Runner: agent.RunnerFunc(func(ctx context.Context, t *agent.Turn) (agent.Result, error) {
			witness("began\t%s", t.Run)
			select {
			case <-time.After(rand.N(400 * time.Millisecond)): //nolint:gosec // any will do
			case <-ctx.Done():
			}
			return agent.Result{Text: "found"}, ctx.Err()
		}),
		Deliver: func(_ context.Context, d agent.Delivery) error {
			run := d.Completion.Run
			witness("ended\t%s\t%s %v", run.Task, d.Key, run.Status)
			return nil
		},
	})
	if err != nil {
		say("failed: %v", err)
		return
	}
	go func() {
		say("begun")
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			go spawnIn(ctx, rt, in.Text())
		}
	}()
	say("failed: %v", rt.Run(ctx))
}

// spawnIn spawns a task, whose first word is the number of its chat.
func spawnIn(ctx context.Context, rt *agent.Runtime, task string) {
	chat, _, _ := strings.Cut(task, "-")
	key := session.Must(session.DirectKey("main", "term", chat))
	_, err := rt.Session(key).Spawn(ctx, agent.Task{Text: task, Key: task, Announce: true})
	if err == nil {
		say("spawned %s", task)
	}
}

// A fleet is the processes of a bot.
type fleet struct {
	t       *testing.T
	url     string
	witness string

	mu      sync.Mutex
	bots    []*process
	spawned map[string]chan bool // closed when a task is on record
}

// start starts the i-th process, again if there was one before.
func (f *fleet) start(i int) {
	begun := make(chan bool, 1)
	p := startChild(f.t, func(line string) {
		if line == "begun" {
			begun <- true
			return
		}
		task, ok := strings.CutPrefix(line, "spawned ")
		if !ok {
			f.t.Log(line)
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if ch := f.spawned[task]; ch != nil {
			close(ch)
			delete(f.spawned, task)
		}
	}, "bot", f.url, fmt.Sprint("p", i), f.witness)
	select {
	case <-begun:
	case <-time.After(time.Minute):
		require.Fail(f.t, "a process does not begin")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bots[i] = p
}

// ask has a task spawned, by one process after another under the same key, until one says that it
// is on record.
func (f *fleet) ask(task string) {
	done := make(chan bool)
	f.mu.Lock()
	f.spawned[task] = done
	f.mu.Unlock()
	for {
		f.mu.Lock()
		p := f.bots[rand.IntN(len(f.bots))] //nolint:gosec // any will do
		f.mu.Unlock()
		p.in(task)
		select {
		case <-done:
			return
		case <-time.After(2 * time.Second):
		}
	}
}

// read returns how often each run began, and the ends that each task had.
func (f *fleet) read() (began map[string]int, ends map[string]map[string]bool) {
	text, err := os.ReadFile(f.witness)
	require.NoError(f.t, err)
	began, ends = map[string]int{}, map[string]map[string]bool{}
	for line := range strings.Lines(string(text)) {
		part := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if part[0] == "began" {
			began[part[1]]++
			continue
		}
		if ends[part[1]] == nil {
			ends[part[1]] = map[string]bool{}
		}
		ends[part[1]][part[2]] = true
	}
	return began, ends
}

// Three processes of a bot share a server, and one after another is killed under load, and started
// again. Every task that was asked for ends once, under one key, and no run begins twice.
func TestKilledRuntimes(t *testing.T) {
	f := &fleet{
		t: t, url: startServer(t).url(), bots: make([]*process, 3),
		witness: filepath.Join(t.TempDir(), "witness"), spawned: map[string]chan bool{},
	}
	for i := range f.bots {
		f.start(i)
	}
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
				f.ask(fmt.Sprintf("%d-%d", chat, asked[chat]))
				asked[chat]++
			}
		})
	}
	for round := range rounds(3, 100) {
		time.Sleep(time.Second + rand.N(time.Second)) //nolint:gosec // any will do
		i := round % len(f.bots)
		f.bots[i].kill()
		if round%2 == 0 { // else its lease has not lapsed
			time.Sleep(childLease + 2*time.Second)
		}
		f.start(i)
	}
	close(stop)
	people.Wait()
	all := 0
	for _, n := range asked {
		all += n
	}
	require.Eventually(t, func() bool {
		_, ends := f.read()
		return len(ends) >= all
	}, 2*time.Minute, 100*time.Millisecond, "%v were asked", asked)
	began, ends := f.read()
	for run, n := range began {
		assert.Equal(t, 1, n, "run %s began once", run)
	}
	for chat, n := range asked {
		for i := range n {
			task := fmt.Sprintf("%d-%d", chat, i)
			assert.Len(t, ends[task], 1, "task %s ended once, under one key: %v", task, ends[task])
		}
	}
	t.Logf("tasks by chat: %v, runs that began: %d", asked, len(began))
}
