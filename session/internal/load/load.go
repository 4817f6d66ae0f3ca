package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Load is what one process does: each of its requesters has so many sub-agents under way at a
// time, for as long as it lasts. A requester is a chat.
type Load struct {
	Target     string // what is in the engine, as the test that starts the process means it
	Name       string // of the process
	Requesters []int
	AtOnce     int
	Turn       time.Duration // of a sub-agent
	For        time.Duration
	Events     string // the file that gets the events of the lane; empty: none
}

// A Took is how long one sub-agent took from its spawn to its delivery.
type Took struct {
	Requester int
	Time      time.Duration
}

// Of returns the Load that the text of an argument or a variable says.
func Of(text string) (l Load, err error) {
	err = json.Unmarshal([]byte(text), &l)
	return l, err
}

// String returns l as a text without a space.
func (l Load) String() string {
	text, err := json.Marshal(l)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Serve puts the load on a Runtime over a Store. It says on out when the Runtime has begun, waits
// for a line of in, says on out how long each sub-agent took, and serves on until in ends.
func (l Load) Serve(ctx context.Context, s *session.Store, in io.Reader, out io.Writer) error {
	note, end, err := l.notes()
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var delivered sync.Map // channels by label
	store := *s
	store.Owners = noting{s.Owners, note}
	rt, err := agent.Open(ctx, agent.Config{
		Store: &store,
		Runner: agent.RunnerFunc(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
			note(begun, "")
			defer note(ended, "")
			wait(ctx, l.Turn)
			return agent.Result{Text: "found"}, ctx.Err()
		}),
		Deliver: func(_ context.Context, d agent.Delivery) error {
			if done, ok := delivered.LoadAndDelete(d.Completion.Run.Label); ok {
				close(done.(chan struct{}))
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	over := make(chan error, 1)
	go func() { over <- rt.Run(ctx) }()
	err = l.serve(ctx, rt, &delivered, bufio.NewReader(in), out)
	cancel()
	return errors.Join(err, <-over)
}

// serve is Serve once the Runtime runs.
func (l Load) serve(
	ctx context.Context, rt *agent.Runtime, delivered *sync.Map, in *bufio.Reader, out io.Writer,
) error {
	if _, err := fmt.Fprintln(out, "begun"); err != nil {
		return err
	}
	if _, err := in.ReadString('\n'); err != nil { // when all have begun
		return err
	}
	took, err := l.ask(ctx, rt, delivered)
	if err != nil {
		return err
	}
	text, err := json.Marshal(took)
	if err == nil {
		_, err = fmt.Fprintf(out, "%s\n", text)
	}
	_, _ = io.Copy(io.Discard, in)
	return err
}

// ask has all requesters spawn until the time is over.
func (l Load) ask(
	ctx context.Context, rt *agent.Runtime, delivered *sync.Map,
) (took []Took, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	end := time.Now().Add(l.For)
	for _, r := range l.Requesters {
		for i := range l.AtOnce {
			wg.Go(func() {
				for n := 0; time.Now().Before(end); n++ {
					label, begun := fmt.Sprint(r, " ", i, " ", n), time.Now()
					failed := spawn(ctx, rt, r, label, delivered)
					mu.Lock()
					if failed != nil {
						err = failed
					}
					took = append(took, Took{r, time.Since(begun)})
					mu.Unlock()
					if failed != nil {
						return
					}
				}
			})
		}
	}
	wg.Wait()
	return took, err
}

// spawn has a requester spawn a sub-agent, and waits until that is delivered.
func spawn(
	ctx context.Context, rt *agent.Runtime, requester int, label string, delivered *sync.Map,
) error {
	chat, err := session.DirectKey("main", "term", fmt.Sprint(requester))
	if err != nil {
		return err
	}
	done := make(chan struct{})
	delivered.Store(label, done)
	_, err = rt.Session(chat).Spawn(ctx, agent.Task{
		Text: "look it up", Label: label, Announce: true,
	})
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait waits for a time, or until ctx is done.
func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// notes returns what notes an event of the lane, and what ends that.
func (l Load) notes() (note func(k kind, ticket string), end func(), err error) {
	if l.Events == "" {
		return func(kind, string) {}, func() {}, nil
	}
	file, err := os.OpenFile(l.Events, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	note = func(k kind, ticket string) {
		e := event{at: time.Now(), kind: k, process: l.Name, ticket: ticket}
		_, _ = fmt.Fprintln(file, e) // one write, so that lines of processes do not mix
	}
	return note, func() { _ = file.Close() }, nil
}

// A noting is an Owners whose lane of sub-agents notes what is asked for, granted and freed.
type noting struct {
	session.Owners

	note func(k kind, ticket string)
}

// laneOfSubagents is the name of the lane of the turns of sub-agents.
const laneOfSubagents = "offshoot.subagents"

func (n noting) Lane(name string, limit int, u session.LaneUser) session.Lane {
	if name != laneOfSubagents {
		return n.Owners.Lane(name, limit, u)
	}
	granted := u.Granted
	u.Granted = func(id string) {
		n.note(given, id)
		granted(id)
	}
	return notingLane{n.Owners.Lane(name, limit, u), n.note}
}

type notingLane struct {
	session.Lane

	note func(k kind, ticket string)
}

func (l notingLane) Ask(t session.Ticket) error {
	l.note(asked, t.ID)
	return l.Lane.Ask(t)
}

func (l notingLane) Free(id string) {
	l.note(freed, id)
	l.Lane.Free(id)
}
