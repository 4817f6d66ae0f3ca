package pgstore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// A load is what one process does: each of its requesters has so many sub-agents under way at a
// time, for as long as it lasts.
type load struct {
	DSN, Schema, Name string
	Requesters        []int
	AtOnce            int
	Turn              time.Duration // of a sub-agent
	For               time.Duration
	Turns             string // the file that gets the begin and the end of each turn; empty: none
}

// loadChild is a process of a bot under load. Its argument is a load as JSON.
func loadChild(ctx context.Context, args []string) {
	var l load
	err := json.Unmarshal([]byte(args[0]), &l)
	if err == nil {
		err = l.run(ctx)
	}
	if err != nil {
		enginetest.Say("failed: %v", err)
	}
}

// run puts the load on a Runtime of its own, and says how long each sub-agent took from its spawn
// to its delivery, in microseconds.
func (l *load) run(ctx context.Context) error {
	store, err := pgstore.Open(ctx, l.DSN, pgstore.Options{Schema: l.Schema, Process: l.Name})
	if err != nil {
		return err
	}
	var turns *os.File
	if l.Turns != "" {
		turns, err = os.OpenFile(l.Turns, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
	}
	var delivered sync.Map // channels by label
	rt, err := agent.Open(ctx, agent.Config{
		Store: store,
		Runner: agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
			if turns != nil {
				_, _ = fmt.Fprintln(turns, time.Now().UnixNano(), 1)
				defer func() { _, _ = fmt.Fprintln(turns, time.Now().UnixNano(), -1) }()
			}
			time.Sleep(l.Turn)
			return agent.Result{Text: "found"}, nil
		}),
		Deliver: func(_ context.Context, d agent.Delivery) error {
			if done, ok := delivered.LoadAndDelete(d.Completion.Run.Label); ok {
				close(done.(chan bool))
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	enginetest.Say("begun")
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // when all have begun
	took, err := l.ask(ctx, rt, &delivered)
	if err != nil {
		return err
	}
	text, err := json.Marshal(took)
	enginetest.Say("took %s", text)
	_, _ = io.ReadAll(os.Stdin)
	return err
}

// ask has all requesters spawn until the time is over.
func (l *load) ask(ctx context.Context, rt *agent.Runtime, delivered *sync.Map) ([]int64, error) {
	var mu sync.Mutex
	var took []int64
	var failed error
	var wg sync.WaitGroup
	end := time.Now().Add(l.For)
	for _, chat := range l.Requesters {
		for i := range l.AtOnce {
			wg.Go(func() {
				for n := 0; time.Now().Before(end); n++ {
					label, done := fmt.Sprint(chat, " ", i, " ", n), make(chan bool)
					delivered.Store(label, done)
					began := time.Now()
					_, err := rt.Session(enginetest.ChatKey(chat)).Spawn(ctx, agent.Task{
						Text: "look it up", Label: label, Announce: true,
					})
					if err == nil {
						<-done
					}
					mu.Lock()
					if took = append(took, time.Since(began).Microseconds()); err != nil {
						failed = err
					}
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
	}
	wg.Wait()
	return took, failed
}

// underLoad has so many processes share a load, and returns how long each sub-agent took.
func underLoad(t *testing.T, processes, requesters int, l load) (took []int64) {
	t.Helper()
	l.Schema = freshSchema()
	children, lines := make([]*enginetest.Process, processes), make([]chan string, processes)
	for i := range processes {
		l.Name, l.Requesters = fmt.Sprint("p", i), nil
		for r := i; r < requesters; r += processes {
			l.Requesters = append(l.Requesters, r)
		}
		text, err := json.Marshal(l)
		require.NoError(t, err)
		said := make(chan string, 10)
		children[i] = enginetest.Start(t, func(line string) { said <- line }, "load", string(text))
		lines[i] = said
		require.Equal(t, "begun", <-said)
	}
	for _, p := range children {
		p.Tell("")
	}
	for i := range children {
		text, ok := strings.CutPrefix(<-lines[i], "took ")
		require.True(t, ok, text)
		var more []int64
		require.NoError(t, json.Unmarshal([]byte(text), &more))
		took = append(took, more...)
	}
	for _, p := range children {
		p.Kill()
	}
	slices.Sort(took)
	return took
}

// commits returns how many rows a second the server commits, each in a transaction of its own, over
// so many connections.
func commits(t *testing.T, s *server, connections int, d time.Duration) float64 {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), s.DSN()+fmt.Sprint("&pool_max_conns=", connections))
	require.NoError(t, err)
	defer pool.Close()
	table := freshSchema()
	_, err = pool.Exec(t.Context(), `create table `+table+` (data bytea)`)
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	all, row := 0, make([]byte, 1000)
	end := time.Now().Add(d)
	for range connections {
		wg.Go(func() {
			n := 0
			for ; time.Now().Before(end); n++ {
				_, err := pool.Exec(t.Context(), `insert into `+table+` values ($1)`, row)
				if err != nil {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all += n
		})
	}
	wg.Wait()
	return float64(all) / d.Seconds()
}

// TestLoad prints the tables of docs/cluster.md, if it is asked to: OFFSHOOT_LOAD is how long each
// row takes, such as 10s. It asserts no time, but that a limit of the lane holds.
func TestLoad(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("OFFSHOOT_LOAD"))
	if err != nil {
		t.Skip("OFFSHOOT_LOAD says how long each row takes")
	}
	s := ownServer(t)
	var out strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	say("%s, %s/%s, %d processors", time.Now().UTC().Format("2006-01-02"), runtime.GOOS,
		runtime.GOARCH, runtime.NumCPU())
	say("\n| connections | raw commits/s |\n|---|---|")
	for _, n := range []int{1, 16} {
		say("| %d | %.0f |", n, commits(t, s, n, d/2))
	}
	say("\n| processes | requesters | spawns/s | spawn to delivery: median | 99 %% |\n" +
		"|---|---|---|---|---|")
	for _, requesters := range []int{1, 64} {
		for processes := 1; processes <= 3; processes++ {
			took := underLoad(t, processes, requesters, load{DSN: s.DSN(), AtOnce: 1, For: d})
			say("| %d | %d | %.1f | %.1f ms | %.1f ms |", processes, requesters,
				float64(len(took))/d.Seconds(), float64(took[len(took)/2])/1000,
				float64(took[len(took)*99/100])/1000)
		}
	}
	file := filepath.Join(t.TempDir(), "turns")
	const turn, slots = 100 * time.Millisecond, 8
	took := underLoad(t, 3, 24, load{DSN: s.DSN(), AtOnce: 2, Turn: turn, For: 2 * d, Turns: file})
	most, rate := turnsAtOnce(t, file)
	say("\nA lane of %d slots, three processes, turns of %v, %d runs: at most %d turns at once, "+
		"%.1f turns/s, %.0f %% of the ideal", slots, turn, len(took), most, rate,
		100*rate/(slots/turn.Seconds()))
	t.Log("\n" + out.String())
	require.LessOrEqual(t, most, slots)
}

// turnsAtOnce returns how many turns were under way at a time at most, as the processes have noted
// their begins and ends, and how many there were a second in the middle half of the time.
func turnsAtOnce(t *testing.T, file string) (most int, rate float64) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	type step struct {
		at int64
		by int
	}
	var steps []step
	for line := range strings.Lines(string(text)) {
		at, by, _ := strings.Cut(strings.TrimSpace(line), " ")
		x, err := strconv.ParseInt(at, 10, 64)
		require.NoError(t, err)
		n, err := strconv.Atoi(by)
		require.NoError(t, err)
		steps = append(steps, step{x, n})
	}
	slices.SortFunc(steps, func(a, b step) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.by - b.by
	})
	now := 0
	for _, x := range steps {
		now += x.by
		most = max(most, now)
	}
	first, last := steps[0].at, steps[len(steps)-1].at
	from, to := first+(last-first)/4, last-(last-first)/4
	begun := 0
	for _, x := range steps {
		if x.by > 0 && x.at >= from && x.at < to {
			begun++
		}
	}
	return most, float64(begun) / (float64(to-from) / 1e9)
}
