package agentctx_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// C3: a SKILL.md chooses neither whose settings it gets nor whether it is turned off. Every origin
// has a skill whose skillKey is the name of another skill, that of no skill, or its own.
func TestSkillGetsSettingsThatAreMeantForIt(t *testing.T) {
	keyed := func(name, key string) string {
		return skillText(name, "x", fmt.Sprintf(
			`metadata: {"openclaw": {"skillKey": %q, "primaryEnv": "VALUE", "always": true}}`, key,
		))
	}
	github := skillSource(agentctx.SkillBundled, "bundled", map[string]string{
		"github/SKILL.md": keyed("github", "github"),
	})
	of := func(key string) agentctx.SkillConfig {
		return agentctx.SkillConfig{APIKey: "of " + key, Env: map[string]string{"MORE": "of " + key}}
	}
	off := agentctx.SkillConfig{Disabled: true, APIKey: "of what is off"}
	type configs = map[string]agentctx.SkillConfig
	const gone = "gone"
	for name, c := range map[string]struct {
		name, key string
		config    configs
		// What the skill gets: the key of its settings, gone if it is not eligible.
		shipped, other string
	}{
		"its own":               {"own", "own", configs{"own": of("own")}, "own", "own"},
		"none":                  {"own", "own", configs{"github": of("github")}, "", ""},
		"a key without a skill": {"own", "k", configs{"k": of("k")}, "k", gone},
		"the key of another": {
			"thief", "github", configs{"github": of("github")}, "github", gone,
		},
		"the key of another, and its own": {
			"thief", "github", configs{"github": of("github"), "thief": of("thief")}, "github", "thief",
		},
		"its name in place of its key": {"own", "k", configs{"own": of("own")}, "own", "own"},
		"off by its name":              {"evil", "evil", configs{"evil": off}, gone, gone},
		"off by its name, other key":   {"evil", "nice", configs{"evil": off}, gone, gone},
		"off by its name, other key configured": {
			"evil", "nice", configs{"evil": off, "nice": of("nice")}, gone, gone,
		},
		"off by its key": {"own", "k", configs{"k": off}, gone, gone},
		"off by its key, configured by its name": {
			"own", "k", configs{"k": off, "own": of("own")}, gone, gone,
		},
	} {
		for origin := agentctx.SkillExtra; origin <= agentctx.SkillWorkspace; origin++ {
			want := c.other
			if origin == agentctx.SkillBundled || origin == agentctx.SkillManaged {
				want = c.shipped
			}
			t.Run(fmt.Sprint(name, " of ", origin), func(t *testing.T) {
				host := agentctx.SkillHost{Config: c.config}
				found, problems := agentctx.DiscoverSkills(github, skillSource(origin, "s",
					map[string]string{"x/SKILL.md": keyed(c.name, c.key)}))
				require.Empty(t, problems)
				snapshot := agentctx.SnapshotSkills(found, host, allSkills)
				listed := make(map[string][]string)
				for _, e := range snapshot.Skills {
					listed[e.Name] = host.Environ(e)
				}
				environ, ok := listed[c.name]
				require.Equal(t, want != gone, ok)
				if want != gone {
					require.Equal(t, environOf(want), environ)
					return
				}
				report := requireExcluded(t, snapshot, c.name)
				if !c.config[c.name].Disabled && !c.config[c.key].Disabled {
					require.Contains(t, report.Why, fmt.Sprintf("stand under %q", c.name))
				}
				for _, e := range found {
					if e.Name == c.name && e.Key != e.Name && want == c.other && want != c.shipped {
						require.Empty(t, host.Environ(e), "it has no settings, asked for or not")
					}
				}
			})
		}
	}
}

// environOf returns the variables of a skill that has the settings under a key.
func environOf(key string) []string {
	if key == "" {
		return nil
	}
	return []string{"MORE=of " + key, "VALUE=of " + key}
}

// requireExcluded returns the report on a skill that a snapshot leaves out, as the account of a
// prompt has it.
func requireExcluded(
	t *testing.T, s agentctx.SkillSnapshot, name string,
) (report agentctx.FileReport) {
	t.Helper()
	p := agentctx.Assemble(agentctx.Input{
		Session: session.Must(session.MainKey("main")), Spec: allSkills,
		Skills: s.Visible(), SkillReports: s.Excluded,
	})
	for _, f := range p.Skills {
		if f.Name == name {
			require.Equal(t, agentctx.ReasonExcluded, f.Reason)
			return f
		}
	}
	require.Fail(t, "the account of the prompt does not have it", name)
	return report
}
