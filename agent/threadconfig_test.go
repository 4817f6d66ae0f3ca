package agent_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// 3.11 to 3.18: what is wrong with the settings of threads is found by Open, and named by both
// paths.
func TestMistakesInThreads(t *testing.T) {
	hours := func(h float64) *float64 { return &h }
	bad := binding.Settings{IdleHours: hours(-1), MaxAgeHours: hours(math.NaN())}
	channel := func(name string, c agent.ThreadChannel) agent.Threads {
		return agent.Threads{Channels: map[string]agent.ThreadChannel{name: c}}
	}
	for name, c := range map[string]struct {
		threads agent.Threads
		paths   []string
		setting string
	}{
		"of all": {
			agent.Threads{Bindings: bad},
			[]string{"Threads.Bindings.IdleHours", "Threads.Bindings.MaxAgeHours"},
			"session.threadBindings.idleHours",
		},
		"of a channel": {
			channel("Discord", agent.ThreadChannel{Bindings: bad}),
			[]string{
				`Threads.Channels["Discord"].Bindings.IdleHours`,
				`Threads.Channels["Discord"].Bindings.MaxAgeHours`,
			},
			"channels.discord.threadBindings.idleHours",
		},
		"of an account": {
			channel("discord", agent.ThreadChannel{Accounts: map[string]binding.Settings{"Bot": bad}}),
			[]string{
				`Threads.Channels["discord"].Accounts["Bot"].IdleHours`,
				`Threads.Channels["discord"].Accounts["Bot"].MaxAgeHours`,
			},
			"channels.discord.accounts.Bot.threadBindings.idleHours",
		},
		"no name":     {channel("", agent.ThreadChannel{}), []string{`Threads.Channels[""]`}, ""},
		"spaces":      {channel(" irc", agent.ThreadChannel{}), []string{`Threads.Channels[" irc"]`}, ""},
		"a line more": {channel("a\nb", agent.ThreadChannel{}), []string{`Threads.Channels["a\nb"]`}, ""},
		"twice": {
			agent.Threads{Channels: map[string]agent.ThreadChannel{"irc": {}, "IRC": {}}},
			[]string{`Threads.Channels["irc"]`},
			"",
		},
		"an account without a name": {
			channel("irc", agent.ThreadChannel{Accounts: map[string]binding.Settings{"": {}}}),
			[]string{`Threads.Channels["irc"].Accounts[""]`},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := agent.Open(t.Context(), agent.Config{Runner: sayOK, Threads: c.threads})
			found := agent.ConfigErrors{}
			require.ErrorAs(t, err, &found)
			var paths []string
			for _, e := range found {
				paths = append(paths, e.Path)
			}
			require.Equal(t, c.paths, paths)
			require.Equal(t, c.setting, found[0].Setting)
		})
	}
}

// A Config that is changed after Open changes nothing.
func TestThreadsAreCopied(t *testing.T) {
	no := false
	accounts := map[string]binding.Settings{}
	channels := map[string]agent.ThreadChannel{"discord": {Accounts: accounts}}
	rt, err := agent.Open(t.Context(), agent.Config{
		Runner: sayOK, Threads: agent.Threads{Channels: channels},
	})
	require.NoError(t, err)
	accounts["bot"] = binding.Settings{Enabled: &no}
	delete(channels, "discord")
	_, err = rt.Focus(t.Context(), agent.FocusRequest{
		Conversation: session.Route{Channel: "discord", Account: "bot", To: "general"},
		Session:      session.Must(session.MainKey("main")), By: "alice",
	})
	require.NoError(t, err)
	require.NoError(t, rt.Shutdown(t.Context()))
	_, err = rt.Bindings(t.Context())
	require.ErrorIs(t, err, agent.ErrShutdown)
}

// The words of states and modes come back.
func TestWordsOfThreads(t *testing.T) {
	for s := agent.ThreadUncertain; s <= agent.ThreadGone; s++ {
		text, err := s.MarshalText()
		require.NoError(t, err)
		var back agent.ThreadState
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, s, back)
		require.Equal(t, string(text), s.String())
	}
	for m := agent.TaskModeAuto; m <= agent.TaskModeSession; m++ {
		text, err := m.MarshalText()
		require.NoError(t, err)
		var back agent.TaskMode
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, m, back)
		require.Equal(t, string(text), m.String())
	}
	_, err := agent.ThreadState(9).MarshalText()
	require.Error(t, err)
	_, err = agent.TaskMode(9).MarshalText()
	require.Error(t, err)
}
