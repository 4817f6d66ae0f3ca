package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// chat remembers what it was sent, and fails the first time.
type chat struct{ attempts, sent []string }

func (*chat) Updates(context.Context, func(int64, string, string)) {}

func (c *chat) Send(_ context.Context, _ int64, text string) error {
	c.attempts = append(c.attempts, text)
	if len(c.attempts) == 1 {
		return errors.New("no connection")
	}
	c.sent = append(c.sent, text)
	return nil
}

func TestBotAnswers(t *testing.T) {
	seen := &chat{}
	cfg := config(seen, fakeLLM{})
	agenttest.Run(t, cfg, nil, func(h *agenttest.Harness) {
		key := session.Must(session.DirectKey("main", "telegram", "4711"))
		for range 2 { // the transport hands it over twice
			m := agent.Incoming{ID: "1", Text: "How is the weather in Lisbon?"}
			require.NoError(t, errorOf(h.Session(key).Post(h.Context(), m)))
		}
		time.Sleep(time.Minute)
		h.Replied("Sunny in Lisbon.")
		require.Equal(t, []string{"Sunny in Lisbon."}, seen.sent)
		require.Len(t, seen.attempts, 2)
	})
}

// A1: Ctrl-C lets a turn that is under way finish, and what it says is sent.
func TestInterruptDuringATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		seen := &talk{}
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, seen, slow{}) }()
		time.Sleep(time.Second)
		interrupt()
		require.NoError(t, <-ended)
		require.Equal(t, []string{"Sunny in Lisbon."}, seen.sent)
	})
}

// talk is a chat in which a person asks once.
type talk struct{ sent []string }

func (*talk) Updates(_ context.Context, handle func(int64, string, string)) {
	handle(4711, "1", "How is the weather in Lisbon?")
}

func (c *talk) Send(_ context.Context, _ int64, text string) error {
	c.sent = append(c.sent, text)
	return nil
}

// slow is the model of the program, two seconds later.
type slow struct{ fakeLLM }

func (s slow) Chat(ctx context.Context, name string, msgs []Msg, tools []Tool) (Msg, error) {
	time.Sleep(2 * time.Second)
	if err := ctx.Err(); err != nil {
		return Msg{}, err
	}
	return s.fakeLLM.Chat(ctx, name, msgs, tools)
}

// The same bot with a model that follows a script.
func TestBotFollowsAScript(t *testing.T) {
	script := agenttest.Script{
		"main": {
			agenttest.Call("sessions_spawn", `{"task":"compare","label":"compare"}`),
			agenttest.Say("I will compare them."),
			agenttest.Echo(),
		},
		"compare": {
			agenttest.Call("weather", `{"city":"Porto"}`).After(time.Minute),
			agenttest.Echo(),
		},
	}
	agenttest.Run(t, config(&chat{}, nil), script, func(h *agenttest.Harness) {
		h.PostTo(session.Must(session.DirectKey("main", "telegram", "4711")), "Where is it nicer?")
		time.Sleep(time.Hour)
		h.Replied("I will compare them.", "Sunny in Porto.")
	})
}

// errorOf returns the error of a call alone.
func errorOf[T any](_ T, err error) error { return err }
