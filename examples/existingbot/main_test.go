package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/announce/announcetest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// transport remembers what it was sent. It asks once.
type transport struct {
	mu       sync.Mutex
	sent     []string
	failures int // how many sends fail at first
}

func (*transport) Updates(_ context.Context, handle func(chat int64, text string)) {
	handle(4711, "How many files are there?")
}

func (tr *transport) Send(_ context.Context, _ int64, text string) error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.failures > 0 {
		tr.failures--
		return errors.New("no connection")
	}
	tr.sent = append(tr.sent, text)
	return nil
}

// llm is a model client that is a function of the last message.
type llm func(ctx context.Context, last Msg) (Msg, error)

func (f llm) Chat(ctx context.Context, _ string, msgs []Msg, _ []Tool) (Msg, error) {
	return f(ctx, msgs[len(msgs)-1])
}

// says is a model client that always says the same.
func says(text string) llm {
	return func(context.Context, Msg) (Msg, error) {
		return Msg{Role: "assistant", Text: text}, nil
	}
}

// withSubagents returns a bot that has sub-agents and does not run.
func withSubagents(t *testing.T, client LLM, tr Telegram) *Bot {
	t.Helper()
	bot := newBot(client, tr)
	require.NoError(t, addSubagents(t.Context(), bot))
	return bot
}

// inChat runs the whole bot for some time, and then interrupts it.
func inChat(t *testing.T, client LLM, tr Telegram, d time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, newBot(client, tr)) }()
		time.Sleep(d)
		interrupt()
		require.NoError(t, <-ended)
	})
}

func TestBotAnswersWhenItsSubagentHasEnded(t *testing.T) {
	seen := &transport{}
	inChat(t, dialLLM(), seen, time.Minute)
	require.Equal(t, []string{"I am looking into it.", "There are 42 files."}, seen.sent)
}

// Ctrl-C lets a sub-agent that is under way finish.
func TestInterruptWaitsForASubagent(t *testing.T) {
	seen := &transport{}
	inChat(t, dialLLM(), seen, time.Second/2)
	require.Equal(t, []string{"I am looking into it.", "There are 42 files."}, seen.sent)
}

// A7: a delivery that comes while the chat is busy is refused with ErrBusy, and comes again.
func TestBusyChat(t *testing.T) {
	seen := &transport{}
	slow := func(ctx context.Context, last Msg) (Msg, error) {
		if last.Role == "tool" { // the sub-agent is quicker
			time.Sleep(time.Minute)
		}
		return dialLLM().Chat(ctx, "", []Msg{last}, nil)
	}
	inChat(t, llm(slow), seen, 2*time.Minute)
	require.Equal(t, []string{"I am looking into it.", "There are 42 files."}, seen.sent)

	bot := withSubagents(t, says("fine"), seen)
	busy := bot.chat(42)
	busy.mu.Lock()
	require.ErrorIs(t, bot.deliver(t.Context(), delivery("42")), agent.ErrBusy)
	require.NoError(t, bot.deliver(t.Context(), delivery("43")), "other chats are not held up")
	busy.mu.Unlock()
	require.NoError(t, bot.deliver(t.Context(), delivery("42")))
	require.Len(t, seen.sent, 4)
}

// delivery returns the completion of a sub-agent of a chat.
func delivery(chat string) agent.Delivery {
	return agent.Delivery{
		Key: "key", To: session.Must(session.DirectKey("main", "telegram", chat)),
		Completion: &spawn.Completion{Run: spawn.RunInfo{Status: spawn.StatusOK}},
	}
}

// A7: the bot acts once for each key.
func TestReceiver(t *testing.T) {
	announcetest.TestDeliver(t, func(t *testing.T) announcetest.Receiver {
		seen := &transport{}
		bot := withSubagents(t, says("fine"), seen)
		return announcetest.Receiver{
			Deliver: bot.deliver, Acted: func() int { return len(seen.sent) },
			Fail: func() { seen.failures++ },
		}
	})
}

// A7: a delivery whose reply cannot be sent has failed. It comes again, and the chat remembers it
// once.
func TestSendThatFails(t *testing.T) {
	seen := &transport{failures: 1}
	bot := withSubagents(t, says("fine"), seen)
	require.ErrorContains(t, bot.deliver(t.Context(), delivery("42")), "no connection")
	for range 2 {
		require.NoError(t, bot.deliver(t.Context(), delivery("42")))
	}
	require.Equal(t, []string{"fine"}, seen.sent)
	require.Len(t, bot.chat(42).history, 2)
}

// A7: people do not see that the model chooses to say nothing.
func TestSilence(t *testing.T) {
	for _, silence := range []string{announce.NoReply, announce.AnnounceSkip, "", " no_reply."} {
		seen := &transport{}
		inChat(t, llm(func(ctx context.Context, last Msg) (Msg, error) {
			reply, err := dialLLM().Chat(ctx, "", []Msg{last}, nil)
			if reply.Text == "There are 42 files." {
				reply.Text = silence
			}
			return reply, err
		}), seen, time.Minute)
		require.Equal(t, []string{"I am looking into it."}, seen.sent, "%q", silence)
	}
}
