package agent_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

var presetWorker = session.Must(session.Parse(
	"agent:main:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"))

func TestPresetsAreValidAndHaveOneLevel(t *testing.T) {
	for name, preset := range map[string]func(*agent.Config){
		"zero": func(*agent.Config) {}, "goclaw": agent.PresetGoClaw,
		"clawdbot": agent.PresetClawdbot,
	} {
		cfg := agent.Config{Runner: idleRunner{}}
		preset(&cfg)
		require.NoError(t, cfg.Rules.Validate(), name)
		require.Equal(t, 1, cfg.Rules.MaxSpawnDepth(), name)
		_, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err, name)
	}
}

func TestPresetsSetTheirFieldsAlone(t *testing.T) {
	own := agent.Config{
		Runner:    idleRunner{},
		Workspace: workspace("common"),
		Rules:     policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 3, MaxChildren: 7}},
		Models:    agent.Models{Model: "acme/large"},
		Prompts:   agent.Prompts{Input: agentctx.Input{Product: "Perch"}},
	}
	want := own
	want.Rules.Subagents.MaxSpawnDepth, want.Rules.MaxSessions = 1, 30
	want.Prompts.Input.Layout = agentctx.LayoutGoClaw
	want.Prompts.Input.Markers = agentctx.CoreFiles()
	cfg := own
	agent.PresetGoClaw(&cfg)
	require.Equal(t, want, cfg)

	want = own
	want.Rules.Subagents.MaxSpawnDepth, want.Rules.MaxSessions = 1, 4
	want.Rules.Subagents.Announce = policy.AnnounceTurn
	want.Rules.DefaultDeny = strings.Fields("sessions_list sessions_history sessions_send sessions_spawn")
	want.AnnounceTo = agent.AnnounceToChat
	cfg = own
	agent.PresetClawdbot(&cfg)
	require.Contains(t, cfg.AnnounceTurn.Words, `"Notes:"`)
	want.AnnounceTurn.Words = cfg.AnnounceTurn.Words
	require.Equal(t, want, cfg)
}

func TestPresetClawdbotDeniesFourSessionTools(t *testing.T) {
	var cfg agent.Config
	agent.PresetClawdbot(&cfg)
	others := strings.Fields("cron gateway agents_list session_status subagents")
	all := append(strings.Fields("sessions_list sessions_history sessions_send sessions_spawn"),
		others...)
	leaf := policy.Subject{Agent: "main", Role: session.RoleLeaf}
	require.Equal(t, others, cfg.Rules.FilterTools(leaf, all))
	g, err := cfg.Rules.Admit(policy.Caller{Key: topKey, Role: session.RoleMain}, policy.Request{})
	require.NoError(t, err)
	require.Equal(t, policy.AnnounceTurn, g.Announce)
}

// The Runtime's prompts in this preset are those of agentctx.BuildSystemPrompt.
func TestPresetGoClawArrangesThePrompt(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/AGENTS.md", []byte("Be brief."), 0o644))
	cfg := agent.Config{Runner: idleRunner{}, Workspace: os.DirFS(dir)}
	agent.PresetGoClaw(&cfg)

	main := agentctx.Assemble(inputOf(t, cfg, topKey)).String()
	require.Contains(t, main, "## Safety")
	require.Contains(t, main, "HEARTBEAT.md", "a core file that is missing is mentioned")
	in := inputOf(t, cfg, presetWorker)
	in.Task = "Count the boats."
	worker := agentctx.Assemble(in).String()
	require.True(t, strings.HasPrefix(worker, "You are a worker agent"))
	require.NotContains(t, worker, "## Safety")
	require.Contains(t, worker[strings.LastIndex(worker, "\n## "):], "Count the boats.")
}
