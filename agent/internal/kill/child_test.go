package kill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// The child is this very test binary, told by its environment to be a bot that somebody will kill.
const (
	envDir  = "OFFSHOOT_KILL_DIR"  // where its state is
	envLife = "OFFSHOOT_KILL_LIFE" // which of its lives this is, or "last" to come to an end
)

const (
	trees      = 12
	deliveries = "deliveries" // what Deliver was called with, a file beside the state
)

func TestMain(m *testing.M) {
	dir := os.Getenv(envDir)
	if dir == "" {
		m.Run()
		return
	}
	if err := live(dir, os.Getenv(envLife)); err != nil {
		panic(err) // the parent sees the exit code, and shows this
	}
}

func top(i int) session.Key { return session.Named("main", fmt.Sprint("bot", i)) }

// stopped reports whether somebody stops the tree now and then; what it announces may end with that.
func stopped(i int) bool { return i%3 == 0 }

// A teller tells the parent, on standard output, what was acknowledged: whoever is killed cannot take that back.
type teller struct{ mu sync.Mutex }

func (t *teller) tell(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(os.Stdout, format+"\n", args...)
}

// A toldJournal tells of every append.
type toldJournal struct {
	session.Journal
	*teller
}

func (j toldJournal) Append(ctx context.Context, root session.Key, after session.Seq, b session.Batch) (session.Seq, error) {
	last, err := j.Journal.Append(ctx, root, after, b)
	if err == nil {
		j.tell("appended %d %s", last, root)
	}
	return last, err
}

func live(dir, life string) error {
	ctx := context.Background()
	store, err := session.OpenDir(dir)
	if err != nil {
		return err
	}
	told := new(teller)
	out, err := os.OpenFile(filepath.Join(filepath.Dir(dir), deliveries), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	rt, err := agent.Open(ctx, agent.Config{
		Runner: agent.RunnerFunc(run),
		Rules:  policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 3, MaxChildren: 20}},
		Store:  &session.Store{Journal: toldJournal{store.Journal, told}, Transcripts: store.Transcripts},
		Deliver: func(_ context.Context, d agent.Delivery) error {
			_, err := fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", d.Key, d.Run.ID, d.Run.Label, d.Run.Status)
			return err
		},
		Grace: 200 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	running := make(chan error, 1)
	go func() { running <- rt.Run(ctx) }()
	told.tell("alive")
	if life == "last" {
		for i := range trees {
			if err := rt.Session(top(i)).Idle(ctx); err != nil {
				return err
			}
		}
		return errors.Join(rt.Shutdown(ctx), <-running, store.Close())
	}
	var wg sync.WaitGroup
	for i := range trees {
		wg.Go(func() { load(ctx, rt, told, i, life) })
	}
	wg.Wait()
	return <-running
}

// load spawns in one tree until the process is killed.
func load(ctx context.Context, rt *agent.Runtime, told *teller, i int, life string) {
	s := rt.Session(top(i))
	for n := 0; ; n++ {
		var children []*agent.Child[string]
		for c := range 3 {
			label := fmt.Sprintf("t%d-l%s-n%d-c%d", i, life, n, c)
			text := []string{"answer", "fan out", "fail"}[c]
			child, err := agent.Spawn[string](ctx, s, agent.Task{Text: text, Label: label, Key: label, Announce: true})
			if err != nil {
				told.tell("note %s: %v", label, err)
				continue
			}
			told.tell("spawned %s %s", label, child.Key())
			children = append(children, child)
		}
		if stopped(i) && n%2 == 0 {
			if err := s.Stop(ctx); err == nil {
				told.tell("stopped %s", s.Key())
			}
			continue
		}
		if _, err := agent.Join(ctx, children, agent.JoinOptions{Within: 2 * time.Second}); err != nil {
			told.tell("note join: %v", err)
		}
	}
}

// run is every turn of every session.
func run(ctx context.Context, t *agent.Turn) (agent.Result, error) {
	if t.Messages[len(t.Messages)-1].Internal {
		return agent.Result{Text: "all of them are back"}, nil
	}
	input := t.Input()
	switch {
	case strings.Contains(input, "fan out"):
		for c := range 3 {
			text := "answer"
			if c == 0 && t.Session.Depth < 2 {
				text = "fan out"
			}
			if _, err := t.Spawn(ctx, agent.Task{Text: text, Label: fmt.Sprintf("%s/%d", t.Label, c), Key: fmt.Sprintf("%s/%d", t.Label, c), Announce: true}); err != nil {
				return agent.Result{}, err
			}
		}
		t.Yield(agent.JoinOptions{})
		return agent.Result{}, nil
	case strings.Contains(input, "fail"):
		return agent.Result{Text: "so far"}, errors.New("this one always fails")
	}
	select {
	case <-ctx.Done():
		return agent.Result{Text: "cut"}, ctx.Err()
	case <-time.After(2 * time.Millisecond):
		return agent.Result{Text: "the answer of " + t.Label}, nil
	}
}
