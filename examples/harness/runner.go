package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
)

// A request is what the other program reads: one JSON value. A new conversation has a second one,
// with the Session alone, as soon as the id of it is on record here.
type request struct {
	Session string `json:"session,omitempty"` // its own id of the conversation; empty: a new one
	ID      string `json:"id,omitempty"`      // of the message; one that it knows is not told again
	Text    string `json:"text,omitempty"`
}

// An event is what the other program writes, one JSON value after the other. The first has the
// Session, the last is Done.
type event struct {
	Session string      `json:"session,omitempty"`
	Delta   string      `json:"delta,omitempty"`
	Done    bool        `json:"done,omitempty"`
	Error   string      `json:"error,omitempty"`
	Usage   agent.Usage `json:"usage,omitzero"`
}

// A Runner has another program answer, in a process for each turn. The program keeps the
// conversation; the session keeps the program's id for it.
type Runner struct {
	Command []string // the program and its arguments
	Env     []string // added to that of this process
}

// Run implements agent.Runner.
func (r *Runner) Run(ctx context.Context, t *agent.Turn) (res agent.Result, err error) {
	// What arrives meanwhile is read by the next turn.
	ask := request{Session: string(t.State()), Text: t.Input()}
	if t.New > 0 {
		ask.ID = fmt.Sprintf("%s/%d", t.Session.Key, t.Messages[len(t.Messages)-1].Ord)
	}
	cmd := exec.CommandContext(ctx, r.Command[0], r.Command[1:]...) // killed when ctx ends
	cmd.Env = append(os.Environ(), r.Env...)
	cmd.Stderr, cmd.WaitDelay = os.Stderr, time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return res, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return res, err
	}
	if err := cmd.Start(); err != nil {
		return res, err
	}
	requests := json.NewEncoder(in)
	err = requests.Encode(ask)
	for events := json.NewDecoder(out); err == nil; {
		var e event
		if err = events.Decode(&e); err != nil {
			err = fmt.Errorf("the program has ended: %w", err)
			break
		}
		if e.Session != "" && e.Session != ask.Session {
			// Before it works, so that no crash loses it.
			if err = t.SetState(ctx, []byte(e.Session)); err == nil {
				err = requests.Encode(request{Session: e.Session})
			}
		}
		if e.Delta != "" {
			t.Delta(e.Delta)
			res.Text += e.Delta
		}
		if e.Done {
			res.Usage = e.Usage
			if e.Error != "" {
				err = errors.New(e.Error)
			}
			break
		}
	}
	if err != nil && cmd.Process != nil {
		_ = cmd.Process.Kill()
	}
	_ = in.Close()
	if waited := cmd.Wait(); err == nil && waited != nil {
		err = waited
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return res, err
}
