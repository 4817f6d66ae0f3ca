package agent_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// skillPlaces are where a Config names skills, each with a function that names some there.
var skillPlaces = map[string]func(*agent.Config, []string){
	`field=Config.Rules.Agents[0].Skills[0] setting=agents.list[main].skills[0]`: func(
		c *agent.Config, names []string,
	) {
		c.Rules.Agents = []policy.Agent{{ID: "Main", Skills: names}}
	},
	`field=Config.Prompts.Input.Spec.Skills[0] setting=""`: func(c *agent.Config, names []string) {
		c.Prompts.Input.Spec.Skills = names
	},
	`field="Config.Prompts.SubagentSpecs[\"\"].Skills[0]" setting=""`: func(
		c *agent.Config, names []string,
	) {
		c.Prompts.SubagentSpecs = map[string]agentctx.Spec{"": {Skills: names}}
	},
}

// C3: a name of a skill that stands for none is told, once, with the nearest name, when a session
// begins, and at Open if there are no sources at all.
func TestNamesOfSkillsThatStandForNothing(t *testing.T) {
	files := skillFiles()
	files["bad/SKILL.md"] = &fstest.MapFile{Data: []byte("no front matter")}
	for place, set := range skillPlaces {
		for name, near := range map[string]string{
			"alhpa": `; the nearest is \"alpha\"`, "zzz": "", "alpha": "none", " alpha ": "none",
			"*": "none", "gamma": "none",
		} {
			var log bytes.Buffer
			cfg := agent.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}
			set(&cfg, []string{name})
			atOpen := warningsOf(t, cfg)
			require.Equal(t, name != "*", strings.Contains(atOpen, place), atOpen)
			cfg.Prompts.Skills = []agentctx.SkillSource{{FS: files, Path: "skills"}}
			require.Empty(t, warningsOf(t, cfg), "the sources have not been read")
			s := script{"main": {startStep("w"), say("a"), say("b"), say("d")}, "w": {say("c")}}
			agenttest.Run(t, cfg, s, func(h *harness) {
				h.Post("go")
				h.Pass(time.Minute)
				h.Post("on")
				h.Pass(time.Hour)
			})
			text := log.String()
			want := 1
			if near == "none" {
				want = 0
			}
			require.Equal(t, want, strings.Count(text, "there is no skill"), text)
			if want == 1 {
				require.Contains(t, text, place+` doubt="there is no skill \"`+name+`\"`+near+`"`)
			}
		}
	}
}

// C3: so is one in the Spec of a spawn.
func TestSpawnNamesASkillThatIsNotThere(t *testing.T) {
	var log bytes.Buffer
	cfg := configAnswering(asText)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Prompts.Skills = []agentctx.SkillSource{{FS: skillFiles(), Path: "skills"}}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for range 3 {
			spec := agentctx.Spec{Skills: []string{"bata", "alpha"}}
			_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x", Spec: spec})
			require.NoError(t, err)
		}
		h.Pass(time.Hour)
	})
	require.Equal(t, 1, strings.Count(log.String(), "a spec names no skill"), log.String())
	require.Contains(t, log.String(), `the spec names it, and there is no skill \"bata\"; the nearest is \"beta\"`)
}

// C3: a report says which list excludes a skill, or names it in vain.
func TestReportsOnExcludedSkillsSayByWhat(t *testing.T) {
	cfg := agent.Config{Rules: policy.Rules{Agents: []policy.Agent{
		{ID: "main", Skills: []string{"alpha", "gamma", "bta"}}, {ID: "coder"},
	}}}
	cfg.Prompts.Skills = []agentctx.SkillSource{{FS: skillFiles(), Path: "skills"}}
	whys := func(excluded []agentctx.FileReport) map[string]string {
		m := make(map[string]string)
		for _, f := range excluded {
			m[f.Name] = f.Why
		}
		return m
	}
	want := map[string]string{
		"beta":  "excluded: not among Rules.Agents[0].Skills (agents.list[main].skills)",
		"bta":   `named in vain: Rules.Agents[0].Skills (agents.list[main].skills) names it, and there is no skill "bta"; the nearest is "beta"`,
		"gamma": whys(cfg.Skills(topKey).Excluded)["gamma"],
	}
	require.Contains(t, want["gamma"], "no-such-program")
	require.Equal(t, want, whys(cfg.Skills(topKey).Excluded))
	require.Equal(t, want, whys(cfg.Skills(session.GlobalKey()).Excluded), "of the default agent")
	s := script{"main": {say("a")}}
	agenttest.Run(t, cfg, s, func(h *harness) {
		h.Post("go")
		got := whys(h.Requests("main")[0].Prompt.Skills)
		delete(got, "alpha")
		require.Equal(t, want, got)
	})
	cfg.Prompts.Input.Spec.Skills = []string{"alpha", "bta"}
	coder := session.Must(session.MainKey("coder"))
	got := whys(cfg.Skills(coder).Excluded)
	require.Equal(t, "excluded: not among the skills of the spec", got["beta"])
	require.Contains(t, got["bta"], "named in vain: the spec names it, ")
}
