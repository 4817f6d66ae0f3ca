package command_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/agent/command"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// write has a person write what is not a command.
func (b *bot) write(at session.Route, who, text string) session.Key {
	b.t.Helper()
	r, err := b.chat.Write(b.Context(), b.Runtime(), at, who, text)
	require.NoError(b.t, err)
	b.Pass(time.Minute)
	return r.Session
}

// Outside a thread focus creates one, in which people speak to the sub-agent; unfocus ends that. It
// goes on after a restart, and after the end of the run.
func TestFocus(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		alpha := b.spawn(general, "alpha", "say it")
		b.spawn(general, "busy", "work")
		require.Equal(t, "agents:\n-----\nbusy (main) running unbound", b.say(general, "ann", "/agents"))
		require.Equal(t, "The new thread thread-1 now speaks to alpha.", b.say(general, "ann", "/focus alpha"))
		thread := b.chat.Threads()[0]
		require.Equal(t, alpha.Key, b.write(thread, "ann", "one"))
		b.Crash()
		require.Equal(t, alpha.Key, b.write(thread, "bob", "two"))
		require.Contains(t, b.chat.Said(thread), "alpha heard two")
		require.Equal(t, "agents:\n-----\nalpha (main) ok thread:thread-1",
			b.say(general, "ann", "/agents"), "busy was interrupted by the crash")
		require.Equal(t, "agents:\n-----\n(none)\nthis session: thread:thread-1",
			b.say(thread, "ann", "/agents"))
		require.Contains(t, b.say(thread, "ann", "/subagents"), "(none)", "alpha has none")
		require.Equal(t, "Only the person who has focused this conversation may change that.",
			b.say(thread, "bob", "/unfocus"))
		require.Equal(t, "Thread unfocused.", b.say(thread, "ann", "/unfocus"))
		require.Equal(t, b.key(thread), b.write(thread, "ann", "three"))
		require.Equal(t, "This conversation is not currently focused.",
			b.say(thread, "ann", "/unfocus"))
		require.Equal(t, "This conversation is not currently focused.",
			b.say(general, "ann", "/unfocus"))
		require.Equal(t, "This thread now speaks to alpha.", b.say(thread, "bob", "/focus alpha"),
			"the thread's room has alpha")
		require.Equal(t, alpha.Key, b.write(thread, "ann", "four"))
		require.Contains(t, b.say(b.chat.At("other", ""), "ann", "/focus alpha"), "is not a sub-agent",
			"another room has no alpha")
	})
}

// A message that is repeated creates one thread.
func TestFocusOfARepeatedMessage(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		b.spawn(general, "alpha", "say it")
		b.sayAs(general, "ann", "/focus alpha", "7")
		b.sayAs(general, "ann", "/focus alpha", "7")
		require.Len(t, b.chat.Threads(), 1)
		b.sayAs(b.chat.At("other", ""), "ann", "/focus alpha", "7")
		b.sayAs(general, "ann", "/focus alpha", "8")
		require.Len(t, b.chat.Threads(), 2)
	})
}

// In a thread that is bound to a sub-agent the commands concern that one.
func TestCommandsInAFocusedThread(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		alpha := b.spawn(general, "alpha", "nest")
		other := b.spawn(general, "other", "work")
		b.say(general, "ann", "/focus alpha")
		thread := b.chat.Threads()[0]
		require.Contains(t, b.say(thread, "bob", "/subagents"), "1. below alpha (1s) running - work")
		require.Equal(t, "This conversation speaks to a sub-agent, which cannot do that.",
			b.say(thread, "bob", "/reset"))
		require.Contains(t, b.say(thread, "bob", "/compact"), "cannot do that")
		b.say(thread, "bob", "/subagents spawn beta say it")
		b.Pass(time.Minute)
		require.Contains(t, b.chat.Said(thread), "say it is done.\n\nheard [Subagent Task]: say it")
		require.NotContains(t, b.chat.Said(general), "say it is done.\n\nheard [Subagent Task]: say it")
		require.Equal(t, "Agent was aborted. Stopped 1 sub-agent.", b.say(thread, "bob", "/stop"))
		require.Equal(t, agent.StatusCancelled, b.status(alpha))
		require.Equal(t, agent.StatusRunning, b.status(other))
		b.say(general, "ann", "/stop")
	})
}

// The limits of a binding, which only the person who made it may change.
func TestSessionLimits(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		b.spawn(general, "alpha", "say it")
		require.Equal(t, "This conversation is not currently focused.",
			b.say(general, "ann", "/session idle"))
		b.say(general, "ann", "/focus alpha")
		thread := b.chat.Threads()[0]
		require.Equal(t, "Idle timeout active: 24h (next auto-unfocus at 2000-01-02T00:00:01Z).",
			b.say(thread, "bob", "/session idle"))
		require.Equal(t, "Max age is currently disabled.", b.say(thread, "bob", "/session max-age"))
		require.Equal(t, "Only the person who has focused this conversation may change that.",
			b.say(thread, "bob", "/session idle 90m"))
		require.ErrorIs(t, b.last.(command.Failed).Err, binding.ErrNotOwner)
		require.Contains(t, b.say(thread, "ann", "/session idle soon"), "not a duration")
		require.Equal(t, "Idle timeout set to 2h for 1 binding (next auto-unfocus at 2000-01-01T02:00:01Z).",
			b.say(thread, "ann", "/session idle 2"))
		require.Equal(t, "Max age set to 1h30m for 1 binding (next auto-unfocus at 2000-01-01T01:30:01Z).",
			b.say(thread, "ann", "/session max-age 1h30m"))
		require.Equal(t, "Max age disabled for 1 binding.",
			b.say(thread, "ann", "/session max-age off"))
		require.Equal(t, "Idle timeout disabled for 1 binding.",
			b.say(thread, "ann", "/session idle none"))
		require.Equal(t, "Idle timeout is currently disabled.", b.say(thread, "ann", "/session idle"))
		b.say(thread, "ann", "/session idle 2")
		b.Pass(3 * time.Hour)
		require.Equal(t, "This conversation is not currently focused.",
			b.say(thread, "ann", "/session idle"))
	})
}

// What forbids a focus is said in words, and nothing is left over.
func TestFocusMistakes(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		alpha := b.spawn(general, "alpha", "say it")
		require.Equal(t, "It is not known who you are here, so that nothing can be focused for you.",
			b.say(general, "", "/focus alpha"))
		require.Contains(t, b.say(general, "system", "/focus alpha"), "It is not known who you are")
		require.Contains(t, b.say(general, "ann", "/focus nothing"), "is not a sub-agent")
		require.Contains(t, b.say(general, "ann", "/focus"), "Usage: /focus <target>")
		broken := errors.New("HTTP 500 from discord")
		b.chat.Intercept(func(_ context.Context, call agenttest.FakeCall) error {
			if call.Op == "create" {
				return broken
			}
			return nil
		})
		require.Equal(t, "That did not work. Nothing more is known; the log of the bot has the reason.",
			b.say(general, "ann", "/focus alpha"))
		require.ErrorIs(t, b.last.(command.Failed).Err, broken)
		b.chat.Intercept(nil)
		bound, err := b.Runtime().Bindings(b.Context())
		require.NoError(t, err)
		require.Empty(t, bound)
		irc := session.Route{Channel: "irc", To: "ops"}
		m := agent.Incoming{Text: "/focus alpha", Route: irc, From: session.Sender{ID: "ann"}}
		a, ok := b.handler().Handle(b.Context(), b.key(general), m)
		require.True(t, ok)
		require.Equal(t, "Conversations of this channel cannot be focused.", a.Text())
		require.NoError(t, b.Runtime().DeleteSession(b.Context(), alpha.Key))
		require.Contains(t, b.say(general, "ann", "/focus alpha"), "is not a sub-agent")
	})
}

// A session of another tree is reached where the program allows it, by its key, its session id or
// its label, and else looks like one that does not exist.
func TestReach(t *testing.T) {
	var asked []session.Key
	opt := command.Options{Reach: func(_ context.Context, r command.Request, to session.Key) error {
		asked = append(asked, to)
		if r.Message.From.ID != "ann" {
			return errors.New("a stranger")
		}
		return nil
	}}
	play(t, opt, func(b *bot) {
		general, other := room(b), b.chat.At("other", "")
		alpha := b.spawn(other, "Alpha", "say it")
		b.spawn(other, "twin", "say it")
		b.spawn(b.chat.At("third", ""), "twin", "say it")
		for _, target := range []string{alpha.Key.String(), alpha.SessionID, "alpha"} {
			require.Regexp(t, "^The new thread thread-. now speaks to Alpha.$",
				b.say(general, "ann", "/focus "+target))
			require.Contains(t, b.say(general, "bob", "/focus "+target), "is not a sub-agent")
		}
		require.Contains(t, asked, alpha.Key)
		require.Contains(t, b.say(general, "ann", "/focus twin"), "may be any of these")
		key := b.key(other).String()
		require.Contains(t, b.say(general, "ann", "/focus "+key), "now speaks to agent:main:discord")
		thread := b.chat.Threads()[3]
		b.say(thread, "ann", "/reset")
		require.IsType(t, command.Begun{}, b.last, "the session that is bound begins anew")
	})
}

// What models choose can neither steer a terminal, nor notify people, nor fill the chat.
func TestAnswersArePeoples(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		general := room(b)
		long := "say @everyone token=sk-abcdefghijklmnopqrstuvwxyz \x1b[2J\u202e "
		for len(long) < 30_000 {
			long += "x **bold** [a](http://evil.example) "
		}
		for range 60 {
			b.spawn(general, "@here <b> \u202elabel", long)
		}
		for _, said := range []string{
			"/subagents", "/subagents info 1", "/subagents log 1 200 tools", "/agents", "/kill @here",
			"/subagents send 1 again",
		} {
			text := b.say(general, "ann", said)
			require.NotContains(t, text, "\u202e", said)
			require.NotContains(t, text, "\x1b", said)
			require.NotContains(t, text, "klmnopqrst", said)
			if said == "/subagents" || said == "/agents" || said == "/subagents info 1" {
				require.NotContains(t, text, "@", said)
				require.NotContains(t, text, "](", said)
			}
		}
		require.Contains(t, b.say(general, "ann", "/subagents"), "and 10 more")
	})
}
