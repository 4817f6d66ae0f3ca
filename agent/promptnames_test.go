package agent_test

import (
	"bytes"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
)

// warningsOf opens a Config, which must be valid, and returns what is logged.
func warningsOf(t *testing.T, cfg agent.Config) string {
	t.Helper()
	var log bytes.Buffer
	cfg.Runner, cfg.Logger = idleRunner{}, slog.New(slog.NewTextHandler(&log, nil))
	_, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	return log.String()
}

// C5: a name of a file or a section that stands for none is told wherever a Config has it, once,
// with the name that was probably meant.
func TestNamesInPromptsThatStandForNothing(t *testing.T) {
	places := map[string]func(*agent.Prompts, string){
		"Prompts.Input.Spec.Files[0]": func(p *agent.Prompts, name string) {
			p.Input.Spec.Files = []string{name}
		},
		"Prompts.Input.Markers[0]": func(p *agent.Prompts, name string) {
			p.Input.Markers = []string{name}
		},
		`Prompts.SubagentSpecs[\"main\"].Files[0]`: func(p *agent.Prompts, name string) {
			p.SubagentSpecs = map[string]agentctx.Spec{"main": {Files: []string{name}}}
		},
	}
	for field, set := range places {
		for name, near := range map[string]string{
			"AGENT.md": "AGENTS.md", "agents.md": "AGENTS.md", "./SOUL.md": "SOUL.md",
			"MEMROY.md": "MEMORY.md", "HEARTBEATS.md": "HEARTBEAT.md",
			"AGENTS.md": "", "memory.md": "", "BOOTSTRAP.md": "", "notes/AGENTS.md": "",
			"DEPLOY.md": "", "*": "", "AGENT*.md": "", "README.md": "",
		} {
			cfg := agent.Config{Workspace: fstest.MapFS{"TOOLS.md": {}}}
			set(&cfg.Prompts, name)
			log := warningsOf(t, cfg)
			if near == "" {
				require.Empty(t, log, "%s %s", field, name)
				continue
			}
			require.Contains(t, log, field)
			require.Contains(t, log, `there is no file \"`+name+`\"; the nearest is \"`+near+`\"`)
			require.Equal(t, 1, strings.Count(log, "\n"), log)
			cfg.Prompts.Workspaces = map[string]fs.FS{"main": fstest.MapFS{name: {}}}
			if name != "./SOUL.md" {
				require.Empty(t, warningsOf(t, cfg), "a workspace has it")
			}
			cfg.Prompts.Workspaces = nil
			cfg.Workspace = struct{ fs.FS }{fstest.MapFS{}}
			require.Empty(t, warningsOf(t, cfg), "the workspace may have it")
		}
	}
	cfg := agent.Config{}
	cfg.Prompts.Input.Extra = []agentctx.Section{{ID: "team", Text: "x"}}
	cfg.Prompts.Input.Drop = append(agentctx.SectionIDs(), "retry", "people", "team",
		"attachments", "external-runtimes")
	cfg.Prompts.Input.Order = cfg.Prompts.Input.Drop
	require.Empty(t, warningsOf(t, cfg))
	cfg.Prompts.Input.Drop, cfg.Prompts.Input.Order = []string{"hearbeats"}, []string{"safety", "tem", "zzz"}
	log := warningsOf(t, cfg)
	require.Contains(t, log, `field=Config.Prompts.Input.Drop[0] setting="" doubt="there is no section \"hearbeats\"; the nearest is \"heartbeats\""`)
	require.Contains(t, log, `field=Config.Prompts.Input.Order[1] setting="" doubt="there is no section \"tem\"; the nearest is \"team\""`)
	require.Contains(t, log, `field=Config.Prompts.Input.Order[2] setting="" doubt="there is no section \"zzz\""`)
	cfg = agent.Config{}
	cfg.Prompts.Loader.Extra = []string{"AGENT.md"}
	cfg.Prompts.Input.Spec.Files = []string{"AGENT.md"}
	require.Empty(t, warningsOf(t, cfg), "the Loader is to read it")
}
