package agent_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
)

// An attachmentCase is a row of the field's reference that concerns attachments: of section 1.8
// what a spawn refuses, of section 5.14 what the life of a run does to its files.
type attachmentCase struct {
	id, given, expect string
	change            func(*agent.Config)
	run               func(h *harness, base string)
}

// leftIn returns what is left below .offshoot in a work directory.
func leftIn(h *harness, base string) string {
	h.T().Helper()
	if _, err := os.Stat(base + "/.offshoot"); errors.Is(err, os.ErrNotExist) {
		return "nothing"
	}
	return listFiles(os.DirFS(base + "/.offshoot"))
}

// attached spawns a sub-agent with a file, which works for a while.
func attached(h *harness, task agent.Task, name string) *agent.Child[string] {
	h.T().Helper()
	task.Attachments = attaching(name, "1")
	child, err := h.Main().Spawn(h.Context(), task)
	require.NoError(h.T(), err)
	h.Pass(time.Second)
	return child
}

// attachmentCases are all rows, in the order of docs/attachments.md.
var attachmentCases = []attachmentCase{
	{
		id: "1.23", given: "of a model, disabled", expect: "forbidden, nothing exists",
		change: func(c *agent.Config) { c.Rules.Attachments.Enabled = false },
		run: func(h *harness, base string) {
			out, err := callTool(h, "sessions_spawn", "1", attachArgs(h.T(), "a", "1"))
			require.NoError(h.T(), err)
			require.Equal(h.T(), "forbidden", out["status"])
			require.NotContains(h.T(), out, "childSessionKey")
			require.Empty(h.T(), h.Runs())
			require.Equal(h.T(), "nothing", leftIn(h, base))
		},
	},
	{
		id: "1.24", given: "an empty content", expect: "utf8 is taken, base64 is not",
		run: func(h *harness, base string) {
			args := `{"task":"short","attachments":[{"name":"a","content":"","encoding":"ENC"}]}`
			_, err := callTool(h, "sessions_spawn", "1", strings.Replace(args, "ENC", "base64", 1))
			require.ErrorContains(h.T(), err, "empty base64")
			require.Empty(h.T(), h.Runs())
			out, err := callTool(h, "sessions_spawn", "2", strings.Replace(args, "ENC", "utf8", 1))
			require.NoError(h.T(), err)
			require.Equal(h.T(), "accepted", out["status"], out)
			require.InDelta(h.T(), 0, out["attachments"].(map[string]any)["totalBytes"], 0)
		},
	},
	{
		id: "1.25", given: "A.txt and a.txt, a.txt twice", expect: "refused on a disk",
		run: func(h *harness, base string) {
			for _, files := range [][]string{{"A.txt", "1", "a.txt", "2"}, {"a.txt", "1", "a.txt", "2"}} {
				_, err := callTool(h, "sessions_spawn", "1", attachArgs(h.T(), files...))
				require.Error(h.T(), err)
				require.Empty(h.T(), h.Runs())
				require.Equal(h.T(), "nothing", leftIn(h, base))
			}
		},
	},
	{
		id: "5.16", given: "the archive is due, the run is active", expect: "they stay",
		change: func(c *agent.Config) { c.Rules.Subagents.ArchiveAfter = time.Minute },
		run: func(h *harness, base string) {
			attached(h, agent.Task{Text: "long"}, "a")
			h.Pass(time.Hour)
			require.Equal(h.T(), ".manifest.json=list,a=1", leftIn(h, base))
		},
	},
	{
		id: "5.17", given: "the archive is due, the run has ended", expect: "they are gone",
		change: func(c *agent.Config) { c.Rules.Attachments.Retain = true },
		run: func(h *harness, base string) {
			attached(h, agent.Task{Text: "short"}, "a")
			h.Pass(50 * time.Minute)
			require.Equal(h.T(), ".manifest.json=list,a=1", leftIn(h, base))
			h.Pass(20 * time.Minute)
			require.Empty(h.T(), h.Runs())
			require.Equal(h.T(), "nothing", leftIn(h, base))
		},
	},
	{
		id: "5.18", given: "cleanup delete, two deliveries fail", expect: "they stay so long",
		change: func(c *agent.Config) {
			failed := 0
			c.Deliver = func(context.Context, agent.Delivery) error {
				if failed++; failed <= 2 {
					return errors.New("not now")
				}
				return nil
			}
		},
		run: func(h *harness, base string) {
			attached(h, agent.Task{
				Text: "short", Announce: true, Cleanup: agent.CleanupDelete,
			}, "a")
			require.Equal(h.T(), ".manifest.json=list,a=1", leftIn(h, base))
			h.Pass(time.Hour)
			require.Len(h.T(), h.Deliveries(), 1)
			require.Empty(h.T(), h.Runs())
			require.Equal(h.T(), "nothing", leftIn(h, base))
		},
	},
	{
		id: "5.20", given: "a tree of three levels is stopped", expect: "those of all are gone",
		change: func(c *agent.Config) { c.Rules.Subagents.MaxSpawnDepth = 3 },
		run: func(h *harness, base string) {
			child := attached(h, agent.Task{Text: "deep"}, "a")
			require.Equal(h.T(), 3, strings.Count(leftIn(h, base), "=1"))
			require.NoError(h.T(), child.Stop(h.Context()))
			h.Pass(time.Second)
			require.Equal(h.T(), "nothing", leftIn(h, base))
		},
	},
}

// Every row of the reference is driven against the public API, in the order of docs/attachments.md.
func TestAttachmentCases(t *testing.T) {
	for _, c := range attachmentCases {
		t.Run(c.id+" "+c.given, func(t *testing.T) {
			base := makeTree(t)
			cfg := attachConfig(base)
			cfg.Runner = agent.RunnerFunc(func(
				ctx context.Context, tn *agent.Turn,
			) (agent.Result, error) {
				if tn.Run != "" && tn.Session.Depth < 3 && strings.Contains(tn.Input(), "deep") {
					_, err := tn.Spawn(ctx, agent.Task{Text: "deep", Attachments: attaching("a", "1")})
					if err != nil {
						return agent.Result{}, err
					}
				}
				if tn.Run != "" && !strings.Contains(tn.Input(), "short") {
					return agent.Result{}, pause(ctx, 100*time.Hour)
				}
				return textResult("done")
			})
			if c.change != nil {
				c.change(&cfg)
			}
			agenttest.Run(t, cfg, nil, func(h *harness) { c.run(h, base) })
		})
	}
	page, err := os.ReadFile("../docs/attachments.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "## Against the reference")
	var ids, want []string
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+\.\d+)`).FindAllStringSubmatch(table, -1) {
		ids = append(ids, row[1])
	}
	for _, c := range attachmentCases {
		want = append(want, c.id)
	}
	require.Equal(t, want, ids)
}
