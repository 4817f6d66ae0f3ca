package agent_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/context/contexttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A result that arrives after the report of a sub-agent leaves the report as it is if the answer to
// it is silent, and else the last report counts.
func TestLaterReportReplacesTheFirst(t *testing.T) {
	for answer, want := range map[string]string{
		"NO_REPLY":          "first report",
		"The whole report.": "The whole report.",
	} {
		s := script{
			"main": {startStep("lead"), say("On it."), echo()},
			"lead": {startStep("slow"), say("first report"), say(answer)},
			"slow": {say("late result").After(time.Hour)},
		}
		agenttest.Run(t, agent.Config{Rules: rulesForDepth(2)}, s, func(h *harness) {
			h.Post("go")
			time.Sleep(2 * time.Hour)
			h.Replied("On it.", want)
		})
	}
}

// promiseRow is a row of the first table of docs/prompts.md: the section, what the prompt says, and
// the tests that show it.
var (
	promiseRow  = regexp.MustCompile(`^\| ([a-z-]+) \| (.+) \| (.+) \|$`)
	promiseTest = regexp.MustCompile("`([a-z]+)\\.(Test[A-Za-z0-9]+)`")
)

// promisePackages are the directories of the packages that docs/prompts.md names.
var promisePackages = map[string]string{
	"agent": ".", "agentctx": "../context", "announce": "../announce", "policy": "../policy",
	"spawn": "../spawn",
}

// C2: docs/prompts.md names the test of every promise of a prompt. The promise stands in a prompt
// as it is, the test exists, and each section of a prompt has a row.
func TestPromisesHaveTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "prompts.md"))
	require.NoError(t, err)
	tests := map[string][]string{}
	for name, dir := range promisePackages {
		tests[name] = testsOf(t, dir)
	}
	prompts := workshopPrompts(t)
	prompts["everything"] = agentctx.Assemble(everything(t))
	prompts["typed"] = agentctx.Assemble(agentctx.Input{
		Session:  session.Must(topKey.Child("main", "typed")),
		Subagent: agentctx.Subagent{Schema: `{"type":"object"}`},
	})
	prompts["chat"] = agentctx.Assemble(agentctx.Input{
		Session: topKey, ReportsToPeople: true,
		Active: []agentctx.ActiveSubagent{{Key: presetWorker}},
		Tools:  []agentctx.Tool{{Name: "sessions_spawn"}, {Name: "subagents"}},
	})
	programs, elsewhere := withRuntime(workshop()), withRuntime(workshop(), "elsewhere")
	boxed := withRuntime(workshop())
	boxed.Rules.Sandbox.Mode = policy.SandboxAll
	for name, cfg := range map[string]agent.Config{
		"programs": programs, "elsewhere": elsewhere, "boxed": boxed,
	} {
		prompts[name] = agentctx.Assemble(inputOf(t, cfg, topKey))
	}
	dir := t.TempDir()
	programs.WorkDir = func(string) string { return dir }
	files, err := programs.ChildInput(t.Context(), topKey, agent.Task{
		Text: "x", Attachments: attaching("a.txt", "one"),
	})
	require.NoError(t, err)
	prompts["files"] = agentctx.Assemble(files)
	prompts["alone"] = agentctx.Assemble(agentctx.Input{Session: topKey})
	var rows []string
	_, promises, found := strings.Cut(string(page), "\n## Promises\n")
	require.True(t, found)
	promises, _, _ = strings.Cut(promises, "\n## ")
	for line := range strings.Lines(promises) {
		m := promiseRow.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || m[1] == "section" {
			continue
		}
		section, promise := m[1], strings.ReplaceAll(m[2], `\|`, "|")
		rows = append(rows, section)
		for part := range strings.SplitSeq(promise, " … ") {
			require.True(t, slices.ContainsFunc(promptList(prompts), func(p agentctx.Prompt) bool {
				s, _ := p.Section(section)
				return strings.Contains(s.Text, part)
			}), "no prompt says in the section %s: %s", section, part)
		}
		named := promiseTest.FindAllStringSubmatch(m[3], -1)
		require.NotEmpty(t, named, "no test shows: %s", promise)
		for _, test := range named {
			require.Contains(t, tests[test[1]], test[2], "the test of: %s", promise)
		}
	}
	require.Greater(t, len(rows), 40)
	for name, p := range prompts {
		for _, s := range p.Sections {
			require.Contains(t, rows, s.ID, "a section of the prompt %s", name)
		}
	}
	contexttest.Has(t, prompts["everything"], "## Sandbox")
}

func promptList(prompts map[string]agentctx.Prompt) (list []agentctx.Prompt) {
	for _, p := range prompts {
		list = append(list, p)
	}
	return list
}

// everything returns an input with what the golden files lack.
func everything(t *testing.T) agentctx.Input {
	t.Helper()
	cfg := workshop()
	in := inputOf(t, cfg, topKey)
	in.Skills = []agentctx.Skill{{Name: "pdf", Path: "skills/pdf/SKILL.md"}}
	for _, name := range []string{"gateway", "memory_get", "sessions_send", "session_status"} {
		in.Tools = append(in.Tools, agentctx.Tool{Name: name})
	}
	in.Sandbox = agentctx.Sandbox{
		Enabled: true, Dir: "/box", Mount: "/srv", Access: "ro", BrowserURL: "http://box",
		HostBrowser: agentctx.AnswerNo, Elevated: "ask",
	}
	in.Channel = agentctx.Channel{
		Senders: []string{"+46"}, Options: []string{"telegram"}, Buttons: agentctx.AnswerNo,
		Hints: []string{"Threads are topics."}, Voice: "short sentences", Reactions: "minimal",
	}
	in.Docs, in.Aliases = "/docs", map[string]string{"fast": "acme/small"}
	in.ReasoningTags, in.Limits.File = true, 200
	in.Now = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	return in
}

// testsOf returns the names of the tests in a directory.
func testsOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// C2: with reasoning tags, an answer that is to be one thing alone works inside <final>: silence,
// and the JSON of a typed run.
func TestExactAnswersInsideFinal(t *testing.T) {
	const think = "<think>Is {\"n\":1} right, or NO_REPLY?</think>\n"
	var cfg agent.Config
	cfg.Prompts.Input.ReasoningTags = true
	s := script{
		"main": {
			say(think + "<final>NO_REPLY</final>"), say(think + "<final>HEARTBEAT_OK</final>"),
			say(think + "<final>hello</final>"),
		},
		"typed": {say(think + "<final>{\"n\":2}</final>")},
	}
	agenttest.Run(t, cfg, s, func(h *harness) {
		for range 3 {
			h.Post("go")
			h.Pass(time.Second)
		}
		h.Replied("hello")
		h.Prompted("main", "that alone stands inside <final>.")
		type number struct {
			N int `json:"n"`
		}
		task := agent.Task{Text: "count", Label: "typed"}
		c, err := agent.Spawn[number](h.Context(), h.Main(), task)
		require.NoError(t, err)
		children := []*agent.Child[number]{c}
		out, err := agent.Join(h.Context(), h.Main(), children, agent.JoinOptions{})
		require.NoError(t, err)
		require.Equal(t, 2, out[0].Value.N)
	})
}

// C2: the end of a failed run is told to its requester, whatever the run or its own sub-agents said
// before: silence loses none.
func TestSilenceDoesNotLoseAFailure(t *testing.T) {
	s := script{
		"main": {startStep("lead"), say("On it."), echo()},
		"lead": {startStep("leaf"), yieldStep(), say("NO_REPLY")},
		"leaf": {agenttest.Fail(errors.New("boom")).After(time.Minute)},
	}
	agenttest.Run(t, agent.Config{Rules: rulesForDepth(2)}, s, func(h *harness) {
		h.Post("go")
		h.Pass(time.Hour)
		messages := h.Requests("lead")[2].Messages
		last := messages[len(messages)-1].Text
		require.Contains(t, last, "status: error")
		require.Contains(t, last, "before you have reported, never.")
		h.Replied("On it.") // the lead chose to be silent, against what it was told
	})
	s["lead"] = []agenttest.Step{
		startStep("leaf"), say("NO_REPLY"), agenttest.Fail(errors.New("bang")),
	}
	agenttest.Run(t, agent.Config{Rules: rulesForDepth(2)}, s, func(h *harness) {
		h.Post("go")
		h.Pass(time.Hour)
		require.Len(t, h.Requests("main"), 3)
		messages := h.Requests("main")[2].Messages
		require.Contains(t, messages[len(messages)-1].Text, "status: error, failed: bang")
	})
}
