package agentctx_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

var (
	mainKey  = session.Must(session.Parse("agent:main:main"))
	childKey = session.Must(
		session.Parse("agent:coder:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"),
	)
	noonUTC = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

// coreWorkspace returns a file system with the eight core files.
func coreWorkspace() fstest.MapFS {
	fsys := fstest.MapFS{}
	for _, name := range agentctx.CoreFiles() {
		fsys[name] = &fstest.MapFile{Data: []byte("text of " + name + "\n")}
	}
	return fsys
}

func sectionIDs(p agentctx.Prompt) []string {
	var list []string
	for _, s := range p.Sections {
		list = append(list, s.ID)
	}
	return list
}

func shownFiles(p agentctx.Prompt) []string {
	var list []string
	for _, a := range p.Files {
		if a.Shown() {
			list = append(list, a.Name)
		}
	}
	return list
}

// knownTools are all tools that a section speaks of.
var knownTools = []string{
	"read", "exec", "process", "message", "gateway", "memory_search", "memory_get",
	"session_status",
	"sessions_spawn", "sessions_send", "sessions_list", "sessions_yield", "subagents",
}

func toolsNamed(names ...string) []agentctx.Tool {
	list := make([]agentctx.Tool, len(names))
	for i, name := range names {
		list[i] = agentctx.Tool{Name: name, Summary: "Does what it does."}
	}
	return list
}

// fullInput is an input that opens every gate.
func fullInput(key session.Key) agentctx.Input {
	return agentctx.Input{
		Session: key, Product: "Perch", Files: agentctx.LoadWorkspace(coreWorkspace()),
		Tools: toolsNamed(knownTools...),
		Skills: []agentctx.Skill{
			{Name: "pdf", Description: "Fill in forms.", Path: "skills/pdf/SKILL.md"},
		},
		Env: agentctx.Env{
			Host: "box", OS: "linux", Arch: "arm64", Repo: "/repo", Dir: "/work", Shell: "zsh",
			Model:        "acme/large",
			DefaultModel: "acme/small", Thinking: "low", Reasoning: "off", Channel: "Telegram",
			Capabilities: []string{"Voice", "buttons", "voice"},
		},
		Sandbox: agentctx.Sandbox{
			Enabled: true, Dir: "/box", Mount: "/home/x", Access: "ro",
			BrowserURL: "http://box:6080", HostBrowser: agentctx.AnswerNo, Elevated: "ask",
		},
		Channel: agentctx.Channel{
			Senders: []string{
				"+123", " +456 ", "",
			}, Options: []string{"telegram"}, Buttons: agentctx.AnswerYes,
			Hints: []string{"Threads are topics."}, Voice: "short sentences", Reactions: "minimal",
		},
		Docs: "/docs", Notes: []string{"Commit what you edit.", " "},
		Aliases:       map[string]string{"fast": "acme/small", "best": "acme/large"},
		ReasoningTags: true, HeartbeatPrompt: "Anything to do?", Conversation: "A group of three.",
		Active: []agentctx.ActiveSubagent{
			{Key: childKey, Label: "research", State: "running", Task: "find out"},
		}, Now: noonUTC,
	}
}

func TestSectionsOfAFullPrompt(t *testing.T) {
	p := agentctx.Assemble(fullInput(mainKey))
	assert.Equal(t, []string{
		"identity", "tooling", "tool-call-style", "safety", "skills", "memory-recall",
		"self-update", "model-aliases",
		"workspace", "documentation", "sandbox", "authorized-senders", "reply-tags", "messaging",
		"voice", "reactions",
		"reasoning-format", "project-context", "silent-replies", "heartbeats",
		"conversation-context",
		"date-and-zone", "delegation", "active-sub-agents", "runtime",
	}, sectionIDs(p))
	assert.True(
		t,
		slices.IsSortedFunc(
			p.Sections, func(x, y agentctx.Section) int { return int(x.Class) - int(y.Class) },
		),
	)
	for _, s := range p.Sections {
		want := agentctx.ClassStable
		switch s.ID {
		case "conversation-context":
			want = agentctx.ClassPerSession
		case "date-and-zone", "delegation", "active-sub-agents", "runtime":
			want = agentctx.ClassPerTurn
		}
		assert.Equal(t, want, s.Class, s.ID)
		assert.NotEmpty(t, s.Source, s.ID)
		assert.Equal(t, strings.TrimSpace(s.Text), s.Text, s.ID)
	}
	text := p.String()
	for _, want := range []string{
		"You are a personal assistant running inside Perch.", "take on the persona",
		"- `best`: `acme/large`\n- `fast`: `acme/small`",
		"working directory is `/box`", "mounted from `/home/x`",
		"- Commit what you edit.",
		"Date: Saturday, 21 November 2026\nTime zone: `UTC`", "follow it in your first answer",
	} {
		assert.Contains(t, strings.ToLower(text), strings.ToLower(want))
	}
	assert.NotContains(t, text, "12:00", "never a clock")
}

func TestSectionsOfAMinimalPrompt(t *testing.T) {
	p := agentctx.Assemble(fullInput(childKey))
	assert.Equal(t, []string{
		"identity", "tooling", "safety", "workspace", "sandbox", "reasoning-format",
		"project-context",
		"subagent-context", "date-and-zone", "active-sub-agents", "runtime",
	}, sectionIDs(p))
	assert.Equal(
		t, "You are a worker agent inside Perch, started to complete one specific task.",
		p.Sections[0].Text,
	)

	in := fullInput(childKey)
	in.Spec.Skills = []string{"pdf"}
	assert.Contains(t, sectionIDs(agentctx.Assemble(in)), "skills", "kept if the spec names some")

	cron := agentctx.Assemble(fullInput(session.Must(session.Parse("agent:main:cron:daily"))))
	assert.Equal(t, []string{
		"identity", "tooling", "safety", "workspace", "sandbox", "reasoning-format",
		"project-context", "silent-replies", "date-and-zone", "delegation", "active-sub-agents",
		"runtime",
	}, sectionIDs(cron), "a cron session is not a sub-agent, and people get its answers")
	assert.Equal(t, []string{"AGENTS.md", "TOOLS.md"}, shownFiles(cron))
}

func TestChildInFullMode(t *testing.T) {
	in := fullInput(childKey)
	in.Spec.Mode = agentctx.ModeFull
	in.Subagent = agentctx.Subagent{Depth: 1, MaxDepth: 1}
	list := sectionIDs(agentctx.Assemble(in))
	assert.Contains(t, list, "subagent-context")
	assert.NotContains(t, list, "conversation-context", "the conversation is the main agent's")
	for _, id := range []string{
		"reply-tags", "messaging", "voice", "reactions", "silent-replies", "heartbeats",
	} {
		assert.NotContains(t, list, id, "people do not get its answers")
	}
	assert.NotContains(t, agentctx.Assemble(in).String(), "stands alone", "it may not spawn")
	in.Subagent.MaySpawn = true
	assert.Equal(t, 1, strings.Count(agentctx.Assemble(in).String(), "stands alone"))
}

func TestActiveSubagents(t *testing.T) {
	a := agentctx.ActiveSubagent{
		Key:   session.Must(session.Parse("agent:a:subagent:11111111-2222-4333-8444-555555555555")),
		Label: "one", State: "running", Task: strings.Repeat("long ", 100),
	}
	b := agentctx.ActiveSubagent{
		Key:   session.Must(session.Parse("agent:b:subagent:11111111-2222-4333-8444-555555555555")),
		State: "queued",
	}
	text := func(list ...agentctx.ActiveSubagent) string {
		s, _ := agentctx.Assemble(
			agentctx.Input{Session: mainKey, Active: list},
		).Section(
			agentctx.SectionActive,
		)
		return s.Text
	}
	assert.Equal(t, text(a, b), text(b, a))
	assert.Contains(
		t, text(a, b), "- `"+a.Key.String()+"`, label `one`, state `running`, task `long long",
	)
	assert.Contains(t, text(a, b), "…`\n- `"+b.Key.String()+"`, state `queued`")
	assert.Less(t, len(text(a)), 500)
}

func TestNoneIsTheIdentityLine(t *testing.T) {
	in := fullInput(mainKey)
	in.Spec.Mode = agentctx.ModeNone
	in.Extra = []agentctx.Section{{ID: "own", Text: "own", Minimal: true}}
	p := agentctx.Assemble(in)
	assert.Equal(t, "You are a personal assistant running inside Perch.\n", p.String())
	for _, a := range p.Files {
		assert.Equal(t, agentctx.ReasonExcluded, a.Reason)
	}
}

func TestGates(t *testing.T) {
	bare := agentctx.Assemble(agentctx.Input{Session: mainKey})
	assert.Equal(t, []string{
		"identity", "tooling", "safety", "reply-tags", "messaging", "silent-replies", "runtime",
	}, sectionIDs(bare))
	assert.Equal(t, "You are a personal assistant.", bare.Sections[0].Text)
	assert.Contains(t, bare.String(), "You have no tools in this session.")

	for id, change := range map[string]func(*agentctx.Input){
		"tool-call-style": func(in *agentctx.Input) { in.Tools = toolsNamed("read") },
		"skills": func(in *agentctx.Input) {
			in.Skills, in.Tools = []agentctx.Skill{{Name: "x"}}, []agentctx.Tool{{Name: "cat"}}
		},
		"memory-recall":      func(in *agentctx.Input) { in.Tools = toolsNamed("memory_get") },
		"self-update":        func(in *agentctx.Input) { in.Tools = toolsNamed("gateway") },
		"model-aliases":      func(in *agentctx.Input) { in.Aliases = map[string]string{"a": "b"} },
		"documentation":      func(in *agentctx.Input) { in.Docs = "/docs" },
		"sandbox":            func(in *agentctx.Input) { in.Sandbox.Enabled = true },
		"authorized-senders": func(in *agentctx.Input) { in.Channel.Senders = []string{"x"} },
		"voice":              func(in *agentctx.Input) { in.Channel.Voice = "x" },
		"reactions":          func(in *agentctx.Input) { in.Channel.Reactions = "extensive" },
		"reasoning-format":   func(in *agentctx.Input) { in.ReasoningTags = true },
		"project-context": func(in *agentctx.Input) {
			in.Files = []agentctx.WorkspaceFile{{Name: "AGENTS.md", Content: "x"}}
		},
		"conversation-context": func(in *agentctx.Input) { in.Conversation = "x" },
		"date-and-zone":        func(in *agentctx.Input) { in.Now = noonUTC },
		"delegation":           func(in *agentctx.Input) { in.Tools = toolsNamed("sessions_spawn") },
		"active-sub-agents":    func(in *agentctx.Input) { in.Active = []agentctx.ActiveSubagent{{Key: childKey}} },
		"subagent-context":     func(in *agentctx.Input) { in.Session = childKey },
	} {
		in := agentctx.Input{Session: mainKey}
		change(&in)
		assert.Contains(t, sectionIDs(agentctx.Assemble(in)), id)
		assert.NotContains(t, sectionIDs(bare), id)
	}
	// A gate is not opened by nothing.
	in := agentctx.Input{
		Session: mainKey, Docs: "\n", Notes: []string{" "}, Conversation: " \n",
		Aliases: map[string]string{"a": "", "": "b"},
		Channel: agentctx.Channel{
			Senders: []string{" ", "\x00"}, Voice: " ", Reactions: "wild",
		}, Tools: []agentctx.Tool{{Name: " "}},
		Skills: []agentctx.Skill{
			{},
		}, Files: []agentctx.WorkspaceFile{{Name: "AGENTS.md", Content: " \n"}, {}},
	}
	assert.Equal(t, sectionIDs(bare), sectionIDs(agentctx.Assemble(in)))
}

var toolNamePattern = regexp.MustCompile("`([A-Za-z_]+)`")

func TestNoHintAtAToolThatIsNotThere(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var have []string
		for _, name := range knownTools {
			if rng.IntN(2) == 0 {
				have = append(have, name)
			}
		}
		for _, key := range []session.Key{mainKey, childKey} {
			in := fullInput(key)
			in.Tools, in.Files, in.Active = toolsNamed(have...), nil, nil
			in.Subagent.MaySpawn, in.Subagent.Depth = true, 1+rng.IntN(3)
			in.Spec.Mode = agentctx.Mode(rng.IntN(3))
			in.Layout = agentctx.Layout(rng.IntN(2))
			text := agentctx.Assemble(in).String()
			for _, name := range knownTools {
				if slices.Contains(have, name) {
					continue
				}
				for _, m := range toolNamePattern.FindAllStringSubmatch(text, -1) {
					require.NotEqual(t, name, m[1], "%v", have)
				}
				if name != "read" && name != "message" && name != "process" &&
					name != "exec" { // also plain words
					require.NotContains(t, text, name)
				}
			}
		}
	}
}

func TestHowToWait(t *testing.T) {
	tooling := func(names ...string) string {
		s, _ := agentctx.Assemble(
			agentctx.Input{Session: mainKey, Tools: toolsNamed(names...)},
		).Section(
			agentctx.SectionTooling,
		)
		return s.Text
	}
	assert.Contains(t, tooling("exec", "process"), "background if `exec` can, and wait for it with `process`")
	assert.Contains(t, tooling("exec"), "a timeout, if `exec` takes one")
	assert.NotContains(t, tooling("exec"), "background")
	assert.NotContains(t, tooling("process"), "background")
	assert.Contains(
		t, tooling("subagents", "sessions_list"), "Use `subagents` and `sessions_list` to look",
	)
	assert.NotContains(t, tooling("read"), "to wait")
}

func TestToolsAreListedByName(t *testing.T) {
	list := []agentctx.Tool{
		{Name: "Read", Summary: "Read a\nfile."},
		{Name: "EXEC", Summary: "loud"},
		{Name: "exec", Summary: "run"},
		{Name: "exec"},
		{Name: " "},
		{Name: "apply_patch"},
	}
	want := ""
	for i := range 50 {
		rng := rand.New(rand.NewPCG(uint64(i), 0))
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		p := agentctx.Assemble(
			agentctx.Input{Session: mainKey, Tools: list, Skills: []agentctx.Skill{{Name: "x"}}},
		)
		s, _ := p.Section(agentctx.SectionTooling)
		assert.Contains(t, s.Text, "\n- `apply_patch`\n- `exec`: run\n- `Read`: Read a file.\n")
		if want == "" {
			want = p.String()
		}
		assert.Equal(t, want, p.String(), "the order of the input does not matter")
		assert.Contains(
			t, p.String(), "with `Read` and follow it", "by the name that the session has",
		)
	}
	p := agentctx.Assemble(agentctx.Input{Session: mainKey})
	assert.Contains(t, p.String(), "no tools in this session")
}

func TestStablePrefixStandsStill(t *testing.T) {
	for _, key := range []session.Key{mainKey, childKey} {
		first := agentctx.Assemble(fullInput(key))
		for turn := range 100 {
			rng := rand.New(rand.NewPCG(uint64(turn), 7))
			in := fullInput(key)
			in.Now = noonUTC.Add(time.Duration(turn) * 17 * time.Hour)
			in.Env.Model, in.Env.Thinking = fmt.Sprint("m", turn), fmt.Sprint("t", turn)
			in.Active = append(
				in.Active, agentctx.ActiveSubagent{Key: key, Label: fmt.Sprint(turn)},
			)
			rng.Shuffle(
				len(in.Tools),
				func(i, j int) { in.Tools[i], in.Tools[j] = in.Tools[j], in.Tools[i] },
			)
			p := agentctx.Assemble(in)
			require.Equal(t, first.StablePrefix(), p.StablePrefix())
			require.Equal(t, first.SessionPrefix(), p.SessionPrefix())
			require.Equal(t, first.CacheKey(), p.CacheKey())
			require.True(t, strings.HasPrefix(p.String(), p.SessionPrefix()))
			require.True(t, strings.HasPrefix(p.SessionPrefix(), p.StablePrefix()))
			if turn > 0 {
				require.NotEqual(t, first.String(), p.String())
			}
		}
	}
	// Siblings share it, whatever their task, label and key.
	a, b := fullInput(
		childKey,
	), fullInput(
		session.Must(session.Parse("agent:coder:subagent:11111111-2222-4333-8444-555555555555")),
	)
	a.Subagent, a.Task = agentctx.Subagent{Label: "a"}, "one"
	b.Subagent, b.Task = agentctx.Subagent{Label: "b", Depth: 3}, "two"
	assert.Equal(t, agentctx.Assemble(a).CacheKey(), agentctx.Assemble(b).CacheKey())
	// Another spec, tool, sandbox or file is another prefix.
	for name, change := range map[string]func(*agentctx.Input){
		"spec":    func(in *agentctx.Input) { in.Spec = agentctx.InstructionsSpec() },
		"tools":   func(in *agentctx.Input) { in.Tools = in.Tools[1:] },
		"sandbox": func(in *agentctx.Input) { in.Sandbox.Enabled = false },
		"files":   func(in *agentctx.Input) { in.Files[0].Content = "changed" },
	} {
		c := fullInput(childKey)
		change(&c)
		assert.NotEqual(t, agentctx.Assemble(a).CacheKey(), agentctx.Assemble(c).CacheKey(), name)
	}
	assert.Len(t, agentctx.Assemble(a).CacheKey(), 64)
}

func TestEqualInputGivesEqualBytesAndIsNotChanged(t *testing.T) {
	in := fullInput(mainKey)
	in.Extra = []agentctx.Section{{ID: "own", Text: "own"}}
	in.Order = []string{"tooling", "own"}
	before := fmt.Sprintf("%+v", in)
	p := agentctx.Assemble(in)
	for range 5 {
		assert.Equal(t, p, agentctx.Assemble(in))
	}
	assert.Equal(t, before, fmt.Sprintf("%+v", in))
}

func TestSectionsOfTheCaller(t *testing.T) {
	in := fullInput(mainKey)
	in.Extra = []agentctx.Section{
		{ID: "house-rules", Text: "## House Rules\nNo shoes."},
		{ID: "weather", Class: agentctx.ClassPerTurn, Text: "## Weather\nRain.", Source: "sensor"},
		{
			ID: agentctx.SectionIdentity, Class: agentctx.ClassPerTurn,
			Text: "You are the lighthouse.",
		},
		{ID: "weather", Class: agentctx.ClassPerTurn, Text: "## Weather\nSun.", Source: "sensor"},
		{ID: "blank", Text: " \n"},
		{ID: "charter", Text: "Stable, and named by no order."},
		{ID: "odd", Class: 9, Text: "odd"},
	}
	in.Drop = []string{agentctx.SectionReplyTags, "no-such"}
	in.Order = []string{
		agentctx.SectionSafety, "house-rules", agentctx.SectionTooling, agentctx.SectionRuntime,
		"weather", "no-such",
	}
	p := agentctx.Assemble(in)
	list := sectionIDs(p)
	assert.Equal(
		t, []string{"identity", "tool-call-style", "safety", "house-rules", "tooling", "skills"},
		list[:6],
	)
	assert.Equal(t, []string{"runtime", "weather", "odd"}, list[len(list)-3:])
	assert.Less(
		t, slices.Index(list, "charter"), slices.Index(list, "conversation-context"),
		"at the end of its class",
	)
	assert.Greater(t, slices.Index(list, "charter"), slices.Index(list, "heartbeats"))
	assert.NotContains(t, list, "reply-tags")
	assert.NotContains(t, list, "blank")
	assert.Equal(
		t,
		agentctx.Section{
			ID: "identity", Class: agentctx.ClassStable, Text: "You are the lighthouse.",
			Source: "caller",
		},
		p.Sections[0],
		"a replacement keeps the class",
	)
	s, _ := p.Section("weather")
	assert.Equal(
		t,
		agentctx.Section{
			ID: "weather", Class: agentctx.ClassPerTurn, Text: "## Weather\nSun.", Source: "sensor",
		},
		s,
		"the last of one id counts",
	)

	// A replacement obeys the gate and the mode of what it replaces.
	in = agentctx.Input{Session: childKey, Extra: []agentctx.Section{
		{ID: agentctx.SectionMessaging, Text: "own messaging", Minimal: true},
		{ID: agentctx.SectionMemory, Text: "own memory"},
		{ID: agentctx.SectionDocs, Text: "own docs"},
		{ID: "full-only", Text: "f"},
		{ID: "everywhere", Text: "e", Minimal: true},
	}}
	p = agentctx.Assemble(in)
	for _, text := range []string{"own messaging", "own memory", "own docs"} {
		assert.NotContains(t, p.String(), text)
	}
	assert.NotContains(t, sectionIDs(p), "full-only")
	assert.Contains(t, sectionIDs(p), "everywhere")
	in.Session = mainKey
	text := agentctx.Assemble(in).String()
	assert.Contains(t, text, "own messaging")
	assert.Contains(t, text, "own docs")
	assert.NotContains(t, text, "own memory", "there is no memory tool")
	in.Layout = agentctx.LayoutGoClaw
	assert.NotContains(
		t, agentctx.Assemble(in).String(), "own messaging",
		"the preset has no such section to replace",
	)
}

func TestSendersMayBeHashed(t *testing.T) {
	text := func(secret string) string {
		p := agentctx.Assemble(agentctx.Input{Session: mainKey, Channel: agentctx.Channel{
			Senders: []string{"+123", "+456"}, HashSenders: true, SenderSecret: []byte(secret),
		}})
		s, _ := p.Section(agentctx.SectionSenders)
		return s.Text
	}
	assert.NotContains(t, text(""), "123")
	assert.Len(t, regexp.MustCompile(`"[0-9a-f]{12}"`).FindAllString(text(""), -1), 2)
	assert.Contains(t, text(""), `"1b245e45ea4b"`, "the beginning of the SHA-256 of +123")
	own := agentctx.Channel{HashSenders: true, SenderSecret: []byte("a")}
	assert.Contains(t, text("a"), own.ShowSender(" +123 "))
	assert.Equal(t, `"+123"`, agentctx.Channel{}.ShowSender("+123"))
	assert.NotEqual(t, text(""), text("a"))
	assert.NotEqual(t, text("a"), text("b"))
}

func TestZones(t *testing.T) {
	date := func(in agentctx.Input) string {
		in.Session = mainKey
		s, _ := agentctx.Assemble(in).Section(agentctx.SectionDate)
		return s.Text
	}
	berlin := time.FixedZone("Europe/Berlin", 3600)
	late := time.Date(2026, 11, 21, 23, 30, 0, 0, time.UTC)
	assert.Contains(
		t, date(agentctx.Input{Now: late.In(berlin)}),
		"Sunday, 22 November 2026\nTime zone: `Europe/Berlin`",
	)
	// C4: the date is that of the zone that stands beside it.
	for zone, want := range map[string]string{
		"Asia/Tokyo":       "Sunday, 22 November 2026\nTime zone: `Asia/Tokyo`",
		"America/New_York": "Saturday, 21 November 2026\nTime zone: `America/New_York`",
		"UTC":              "Saturday, 21 November 2026\nTime zone: `UTC`",
		"":                 "Saturday, 21 November 2026\nTime zone: `UTC`",
		"Asia/Tokio":       "Saturday, 21 November 2026\nTime zone: `UTC`",
		"../../etc/passwd": "Saturday, 21 November 2026\nTime zone: `UTC`",
	} {
		assert.Equal(
			t, "## Current Date\nDate: "+want,
			date(agentctx.Input{Now: late, Env: agentctx.Env{Zone: zone}}), zone,
		)
	}
	assert.Contains(
		t, date(agentctx.Input{Now: late.In(berlin), Env: agentctx.Env{Zone: "Pacific/Apia"}}),
		"Sunday, 22 November 2026\nTime zone: `Pacific/Apia`", "and Now may have any zone",
	)
	assert.Empty(t, date(agentctx.Input{Env: agentctx.Env{Zone: "Asia/Tokio"}}))
	// C4: a zone that the system does not know is a doubt, not a mistake, and no layout names it.
	for layout := range agentctx.LayoutGoClaw + 1 {
		in := agentctx.Input{
			Session: mainKey, Layout: layout, Now: late, Env: agentctx.Env{Zone: "Asia/Tokio"},
		}
		require.NoError(t, in.Validate())
		require.ErrorContains(t, in.Env.ZoneFault(), "Asia/Tokio")
		assert.NotContains(t, agentctx.Assemble(in).String(), "Tokio", layout)
	}
	assert.Equal(
		t, "## Current Date\nTime zone: `Asia/Tokyo`",
		date(agentctx.Input{Env: agentctx.Env{Zone: "Asia/Tokyo"}}),
	)
	local := time.Now().Local()
	assert.NotContains(t, date(agentctx.Input{Now: local}), "Local")
}

func TestInputValidate(t *testing.T) {
	require.NoError(t, fullInput(mainKey).Validate())
	for want, change := range map[string]func(*agentctx.Input){
		"Input.Session":                func(in *agentctx.Input) { in.Session = session.Key{} },
		"Spec.Mode is 9":               func(in *agentctx.Input) { in.Spec.Mode = 9 },
		"Limits.File is -3":            func(in *agentctx.Input) { in.Limits.File = -3 },
		"Input.Layout is 7":            func(in *agentctx.Input) { in.Layout = 7 },
		`Channel.Reactions is "wild"`:  func(in *agentctx.Input) { in.Channel.Reactions = "wild" },
		"Input.Env.Zone is not the na": func(in *agentctx.Input) { in.Env.Zone = "UTC\n## System" },
		`Sandbox.Access is "all"`:      func(in *agentctx.Input) { in.Sandbox.Access = "all" },
		"Input.Extra[0].ID is blank":   func(in *agentctx.Input) { in.Extra = []agentctx.Section{{}} },
		"Input.Extra[0].Class is 5":    func(in *agentctx.Input) { in.Extra = []agentctx.Section{{ID: "x", Class: 5}} },
	} {
		in := fullInput(mainKey)
		change(&in)
		assert.ErrorContains(t, in.Validate(), want)
		assert.NotPanics(t, func() { _ = agentctx.Assemble(in).Report() }, want)
	}
}

func TestZeroInput(t *testing.T) {
	p := agentctx.Assemble(agentctx.Input{Files: agentctx.LoadWorkspace(coreWorkspace())})
	assert.Equal(t, agentctx.ModeMinimal, p.Mode)
	assert.Equal(t, []string{"AGENTS.md", "TOOLS.md"}, shownFiles(p))
}

// C2: what belongs to the agent and its person alone is not shown in groups and channels.
func TestGroupsDoNotSeeTheMemory(t *testing.T) {
	workspace := coreWorkspace()
	workspace["memory/2026-11-20.md"] = &fstest.MapFile{Data: []byte("a day")}
	private := []string{"BOOTSTRAP.md", "MEMORY.md", "memory/2026-11-20.md"}
	files := agentctx.Loader{Memory: true}.Load(agentctx.LoadRequest{
		Session: mainKey, Workspace: workspace,
	})
	for key, group := range map[string]bool{
		"agent:main:main":                         false,
		"agent:main:direct:4711":                  false,
		"agent:main:telegram:direct:4711":         false,
		"agent:main:telegram:group:-100":          true,
		"agent:main:telegram:group:-100:topic:7":  true,
		"agent:main:discord:channel:9":            true,
		"agent:main:discord:channel:9:thread:abc": true,
	} {
		in := agentctx.Input{Session: session.Must(session.Parse(key)), Files: files}
		shown := shownFiles(agentctx.Assemble(in))
		for _, name := range private {
			assert.Equal(t, !group, slices.Contains(shown, name), "%s in %s", name, key)
		}
		assert.Contains(t, shown, "USER.md", key)
		assert.Equal(t, !group, strings.Contains(agentctx.Assemble(in).String(), "workspace is new"))
		in.Spec.Files = []string{"*", "MEMORY.md"}
		assert.Contains(t, shownFiles(agentctx.Assemble(in)), "MEMORY.md", "the spec names it")
	}
	link := agentctx.WorkspaceFile{Name: "notes.md", Target: "MEMORY.md", Content: "secret"}
	assert.NotContains(t, agentctx.Assemble(agentctx.Input{
		Session: session.Must(session.Parse("agent:main:telegram:group:-100")),
		Files:   []agentctx.WorkspaceFile{link},
	}).String(), "secret")
}

// C1, C2: a prompt speaks of heartbeats where their text or their list is known.
func TestHeartbeats(t *testing.T) {
	text := func(prompt string, files ...agentctx.WorkspaceFile) string {
		s, _ := agentctx.Assemble(agentctx.Input{
			Session: mainKey, HeartbeatPrompt: prompt, Files: files,
		}).Section(agentctx.SectionHeartbeats)
		return s.Text
	}
	list := agentctx.WorkspaceFile{Name: "HEARTBEAT.md", Content: "- the oven"}
	assert.Empty(t, text(""))
	assert.Contains(t, text("All well?"), "`All well?`")
	assert.NotContains(t, text("All well?"), "HEARTBEAT.md")
	assert.Contains(t, text("", list), "go through HEARTBEAT.md")
}

// C2: the line says who reads it also where it is all there is.
func TestIdentityOfEachKind(t *testing.T) {
	for key, want := range map[string]string{
		"agent:main:main":          "You are a personal assistant.\n",
		"agent:main:cron:daily":    "You are an agent, running a scheduled job. No person is waiting.\n",
		childKey.String():          "You are a worker agent, started to complete one specific task.\n",
		"agent:main:slack:group:1": "You are a personal assistant.\n",
	} {
		for _, mode := range []agentctx.Mode{agentctx.ModeNone, agentctx.ModeFull} {
			p := agentctx.Assemble(agentctx.Input{
				Session: session.Must(session.Parse(key)), Spec: agentctx.Spec{Mode: mode},
			})
			assert.True(t, strings.HasPrefix(p.String(), want), "%s: %s", key, p)
		}
	}
}
