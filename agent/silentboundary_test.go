package agent_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
)

// silentTokens are the words of silence, in spellings that count.
var silentTokens = []string{
	announce.NoReply, announce.HeartbeatOK, announce.AnnounceSkip, "no_reply", `NO\_REPLY`, "ＮＯ＿ＲＥＰＬＹ",
}

// besideSilence are texts that say something, because a word of silence stands in a word.
var besideSilence = map[string]func(token string) string{
	"before": func(token string) string { return token + heardSecret },
	"behind": func(token string) string { return heardSecret + token },
	"both":   func(token string) string { return heardSecret + token + heardSecret },
	"line":   func(token string) string { return "Found:\n" + heardSecret + token },
	"between": func(token string) string {
		return token + heardSecret + token
	},
}

// silenceBoundaries are where a text is read for silence that others said, by where it is shown.
var silenceBoundaries = map[string]func(b *heardBot, said string){
	"reply": func(b *heardBot, said string) { b.spawned(said, agent.Task{Text: "do", Update: true}) },
	"model": func(b *heardBot, said string) { b.spawned(said, agent.Task{Text: "do", Announce: true}) },
	"reply, of what was recorded": func(b *heardBot, said string) {
		b.record = agent.Message{Role: session.MessageAssistant, Text: said}
		b.spawned("", agent.Task{Text: "do", Update: true})
	},
	"model, of what was recorded": func(b *heardBot, said string) {
		b.record = agent.Message{Role: session.MessageAssistant, Text: said}
		b.spawned("", agent.Task{Text: "do", Announce: true})
	},
	"model, of a milestone": func(b *heardBot, said string) {
		b.progress = agent.Progress{Text: said, Milestone: true}
		b.spawned("done", agent.Task{Text: "do", Announce: true, Milestones: true})
	},
	"event, of progress": func(b *heardBot, said string) {
		b.progress = agent.Progress{Text: said, Milestone: true}
		b.spawned("done", agent.Task{Text: "do"})
	},
	"event, of an error": func(b *heardBot, said string) {
		b.fails = errors.New(said)
		b.spawned("", agent.Task{Text: "do"})
	},
	"event, of a label": func(b *heardBot, said string) {
		label := strings.ReplaceAll(said, heardSecret, heardSecret[:4]+"\n"+heardSecret[4:])
		b.spawned("done", agent.Task{Text: "do", Label: strings.ReplaceAll(label, "Found:\n", "")})
	},
	"history": func(b *heardBot, said string) { b.spawned(said, agent.Task{Text: "do"}) },
}

// spawned spawns a sub-agent that says something.
func (b *heardBot) spawned(said string, task agent.Task) {
	b.result = agent.Result{Text: said}
	_, err := b.Main().Spawn(b.Context(), task)
	require.NoError(b.T(), err)
}

// What a sub-agent says is said where it is shown, and masked: the mask of a secret beside a word
// of silence is not taken for its emphasis.
func TestMasksSilenceNothing(t *testing.T) {
	for boundary, hand := range silenceBoundaries {
		for where, text := range besideSilence {
			for _, token := range silentTokens {
				t.Run(boundary+"/"+where+"/"+token, func(t *testing.T) {
					said := text(token)
					require.Equal(t, announce.DecisionSpeak, announce.Decide(said))
					requireSaid(t, boundary, token, func(b *heardBot) { hand(b, said) })
				})
			}
		}
	}
}

// requireSaid requires that a boundary shows a token, and no secret.
func requireSaid(t *testing.T, boundary, token string, hand func(b *heardBot)) {
	t.Helper()
	var log bytes.Buffer
	b := &heardBot{chat: agenttest.NewFakeChannel("irc")}
	cfg := configWith(b.run)
	cfg.Logger = loggingTo(&log).Logger
	cfg.Redact = announce.Redaction{Secrets: []string{heardSecret}}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		b.harness = h
		seen := watch(h, agent.EventQuery{Root: topKey})
		hand(b)
		b.Pass(10 * time.Minute)
		surface, _, _ := strings.Cut(boundary, ",")
		shown := ""
		for where, s := range b.heard(&log, seen()) {
			require.NotContains(t, spell(s), heardSecret, where)
			if strings.HasPrefix(where, surface) {
				shown += s
			}
		}
		plain := strings.NewReplacer(`\\`, `\`).Replace(shown)
		require.Contains(t, plain, token)
	})
}
