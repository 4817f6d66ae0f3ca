package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// TestPlaceHistories plays random histories of one session to which people write from three places,
// none of which is bound. Each place counts its messages from 1. People write, or write and wait
// for the answer; turns answer, say something before that, are silent, or leave the answer to the
// end of a sub-agent; people cancel turns and stop sub-agents; the store, the model and the
// transport fail, and the process dies or is shut down at any moment. It checks:
//
//   - a reply names only messages of its own route, and what it says was heard there;
//   - a caller that waits gets the answer to its own message;
//   - a message is answered once;
//   - what a turn has not answered does not stand open in a turn of another place.
//
// OFFSHOOT_FUZZ sets how many histories are played, in tens. A failure names its seed, which
// OFFSHOOT_SEED plays again.
func TestPlaceHistories(t *testing.T) {
	y := &yard{happened: make(map[string]int)}
	played := 0
	hs := spawntest.Histories{N: 500, Acts: 10, New: func(h *spawntest.History) spawntest.Program {
		played++
		return y.program(h)
	}}
	playHistories(t, &hs, 30)
	t.Log(y.happened)
	if played < 200 || os.Getenv("OFFSHOOT_SEED") != "" {
		return
	}
	for _, what := range []string{
		"accepted", "answered", "waited", "given up", "silent", "said", "left to a sub-agent",
		"cancelled", "stopped", "another place between", "answer after another place",
	} {
		if y.happened[what] == 0 {
			t.Errorf("%q did not happen in %d histories", what, played)
		}
	}
}

// A yard is what outlives the processes of one history, and what happened in all of them.
type yard struct {
	h *spawntest.History

	mu       sync.Mutex
	rts      map[int]*agent.Runtime
	written  map[string][]string          // the IDs of each place
	left     string                       // the place whose answer was left to a sub-agent last
	between  bool                         // another place was answered since
	told     map[string]bool              // keys of deliveries
	answered map[string]map[string]string // by place and ID, the delivery
	happened map[string]int
}

var yardPlaces = []string{"north", "south", "east"}

func yardRoute(place string) session.Route { return session.Route{Channel: "irc", To: place} }

func (y *yard) count(what string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.happened[what]++
}

// program returns what a history is of.
func (y *yard) program(h *spawntest.History) spawntest.Program {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.h, y.rts, y.written = h, make(map[int]*agent.Runtime), make(map[string][]string)
	y.told, y.answered = make(map[string]bool), make(map[string]map[string]string)
	y.left, y.between = "", false
	var commands []spawntest.Command
	for _, c := range []struct {
		name   string
		weight int
		do     func(ctx context.Context, rt *agent.Runtime, p *spawntest.Process, n int) error
	}{
		{"write", 5, y.write},
		{"wait", 5, y.wait},
		{"cancel", 1, y.cancel},
		{"stop", 1, y.stop},
		{"later", 3, y.later},
	} {
		commands = append(commands, spawntest.Command{
			Name: c.name, Weight: c.weight, Span: 60,
			Do: func(ctx context.Context, p *spawntest.Process, n int) {
				y.mu.Lock()
				rt := y.rts[p.Life]
				y.mu.Unlock()
				y.h.Logf("%s %d: %v", c.name, n, c.do(ctx, rt, p, n))
			},
		})
	}
	return spawntest.Program{Open: y.open, Commands: commands, Sites: []string{"model", "reply"}}
}

func (y *yard) open(ctx context.Context, p *spawntest.Process) (spawntest.Server, error) {
	rt, err := agent.Open(ctx, agent.Config{
		Store: p.Store,
		Runner: agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			return y.turn(ctx, p, tn)
		}),
		Reply: func(_ context.Context, d agent.Delivery) error {
			return p.Call("reply", func() error {
				y.reply(d)
				return nil
			})
		},
	})
	y.mu.Lock()
	defer y.mu.Unlock()
	y.rts[p.Life] = rt
	return rt, err
}

// turn answers what it has heard with the tokens of that, in one of several ways.
func (y *yard) turn(
	ctx context.Context, p *spawntest.Process, tn *agent.Turn,
) (r agent.Result, err error) {
	key := fmt.Sprint(tn.Session.Depth, tn.Label, tn.N)
	long := y.h.Roll(20, key)
	if tn.Session.Depth > 0 {
		long *= 6
	}
	if err := pause(ctx, time.Duration(long)*time.Second); err != nil {
		return r, err
	}
	if tn.Session.Depth == 0 {
		y.checkOpen(tn)
	}
	var heard []string
	for _, m := range tn.Messages[len(tn.Messages)-tn.New:] {
		heard = append(heard, tokens.FindAllString(m.Text, -1)...)
	}
	slices.Sort(heard)
	r.Text = "heard " + strings.Join(slices.Compact(heard), "")
	if tn.Session.Depth > 0 {
		return r, nil
	}
	err = p.Call("model", func() error {
		switch y.h.Roll(6, "does", key) {
		case 0, 1:
			if len(heard) == 0 {
				return nil
			}
			task := agent.Task{Text: r.Text, Label: "helper", Announce: true}
			_, err := tn.Spawn(ctx, task)
			if r.Text = "NO_REPLY"; err == nil {
				y.leave(heard[0])
			}
			if y.h.Roll(2, "yields", key) == 0 {
				tn.Yield(agent.JoinOptions{Within: time.Minute})
			}
			return err
		case 2:
			y.count("silent")
			r.Text = "NO_REPLY"
		case 3:
			y.count("said")
			return tn.Say(ctx, r.Text)
		}
		return nil
	})
	return r, err
}

// checkOpen checks that nothing of another place stands open in a turn: a turn that has failed or
// was cancelled leaves its question closed.
func (y *yard) checkOpen(tn *agent.Turn) {
	before := len(tn.Messages) - tn.New
	here := ""
	for _, m := range tn.Messages[before:] {
		if token := tokens.FindString(m.Text); token != "" {
			here, _ = placeOf(token)
		}
	}
	for _, said := range openQuestions(tn.Messages[:before]) {
		for _, token := range tokens.FindAllString(said, -1) {
			if place, _ := placeOf(token); here != "" && place != here {
				y.h.Errorf("%s stands open in turn %d, of %s", token, tn.N, here)
			}
		}
	}
}

// placeOf returns the place of a token: #place.id#.
func placeOf(token string) (place, id string) {
	place, id, _ = strings.Cut(strings.Trim(token, "#"), ".")
	return place, id
}

// leave notes that an answer is left to a sub-agent.
func (y *yard) leave(token string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.left, _ = placeOf(token)
	y.between = false
	y.happened["left to a sub-agent"]++
}

// reply checks what people are told.
func (y *yard) reply(d agent.Delivery) {
	y.mu.Lock()
	defer y.mu.Unlock()
	place := d.Reply.Route.To
	for _, token := range tokens.FindAllString(d.Reply.Text, -1) {
		if from, _ := placeOf(token); from != place {
			y.h.Errorf("%s is told in %s: %q", token, place, d.Reply.Text)
		}
	}
	for _, id := range d.Reply.InReplyTo {
		if !slices.Contains(y.written[place], id) {
			y.h.Errorf("the reply %s in %s is to %q, which was not written there", d.Key, place, id)
		}
	}
	if y.told[d.Key] || d.Reply.Interim {
		return
	}
	y.told[d.Key] = true
	if y.answered[place] == nil {
		y.answered[place] = make(map[string]string)
	}
	for _, id := range d.Reply.InReplyTo {
		if before := y.answered[place][id]; before != "" {
			y.h.Errorf("%s of %s is answered by %s and by %s", id, place, before, d.Key)
		}
		y.answered[place][id] = d.Key
		y.happened["answered"]++
	}
	switch {
	case y.left == "":
	case place != y.left:
		y.happened["another place between"]++
		y.between = true
	case y.between:
		y.happened["answer after another place"]++
		y.left, y.between = "", false
	}
}

// message returns the next message of a place, which says where it is from.
func (y *yard) message(n int) (place string, m agent.Incoming) {
	y.mu.Lock()
	defer y.mu.Unlock()
	place = yardPlaces[n%len(yardPlaces)]
	id := strconv.Itoa(1 + len(y.written[place]))
	if place == "north" { // an ID of one place is that of another now and then
		id = strconv.Itoa(3 + 3*len(y.written[place]))
	}
	y.written[place] = append(y.written[place], id)
	return place, agent.Incoming{ID: id, Text: "#" + place + "." + id + "#", Route: yardRoute(place)}
}

func (y *yard) write(
	ctx context.Context, rt *agent.Runtime, _ *spawntest.Process, n int,
) (err error) {
	_, m := y.message(n)
	err = errNotAsked
	for i := 0; i < 3 && err != nil; i++ {
		_, err = rt.Session(deskKey).Post(ctx, m)
	}
	if err == nil {
		y.count("accepted")
	}
	return err
}

// wait writes a message, and waits for the answer.
func (y *yard) wait(
	ctx context.Context, rt *agent.Runtime, p *spawntest.Process, n int,
) error {
	place, m := y.message(n)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Hour)
	defer cancel()
	r, err := rt.Session(deskKey).PostAndWait(ctx, m)
	switch {
	case p.IsDead():
		return err
	case err != nil:
		y.count("given up")
		return err
	}
	y.count("waited")
	if r.Route != m.Route || !slices.Contains(r.InReplyTo, m.ID) {
		y.h.Errorf("%s of %s waits, and gets the reply to %q in %s: %q", m.ID, place, r.InReplyTo,
			r.Route.To, r.Text)
	}
	return nil
}

func (y *yard) cancel(
	ctx context.Context, rt *agent.Runtime, _ *spawntest.Process, _ int,
) error {
	err := rt.Session(deskKey).CancelTurn(ctx)
	if err == nil {
		y.count("cancelled")
	}
	return err
}

// stop stops the newest sub-agent that has not ended.
func (y *yard) stop(
	ctx context.Context, rt *agent.Runtime, _ *spawntest.Process, _ int,
) error {
	runs, err := rt.Session(deskKey).Runs(ctx)
	for _, run := range runs {
		if !run.Status.Terminal() {
			y.count("stopped")
			return errors.Join(err, rt.Session(run.Key).Stop(ctx))
		}
	}
	return errors.Join(err, spawn.ErrNotFound)
}

func (y *yard) later(
	ctx context.Context, _ *agent.Runtime, _ *spawntest.Process, n int,
) error {
	return pause(ctx, time.Duration(1+n)*10*time.Second)
}
