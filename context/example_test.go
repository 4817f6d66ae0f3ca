package agentctx_test

import (
	"fmt"
	"testing/fstest"
	"time"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

func ExampleAssemble() {
	workspace := fstest.MapFS{ // in a bot: root, err := os.OpenRoot(dir); root.FS()
		"AGENTS.md": {Data: []byte("Answer in one sentence.\n")},
		"USER.md":   {Data: []byte("Ada, up early.\n")},
	}
	for _, key := range []string{"agent:main:main", "agent:main:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"} {
		p := agentctx.Assemble(agentctx.Input{
			Session: session.Must(session.Parse(key)),
			Files:   agentctx.LoadWorkspace(workspace, "AGENTS.md", "USER.md"),
			Tools:   []agentctx.Tool{{Name: "read", Summary: "Read a file."}},
			Env:     agentctx.Env{Model: "acme/large"},
			Now:     time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC),
		})
		fmt.Println(p.Mode, "-", p.Sections[0].Text)
		for _, a := range p.Files {
			fmt.Println("  ", a.Name, a.Kept, a.Reason)
		}
	}
	// Output:
	// full - You are a personal assistant.
	//    AGENTS.md 23 whole
	//    USER.md 14 whole
	// minimal - You are a worker agent, started to complete one specific task.
	//    AGENTS.md 23 whole
	//    USER.md 0 excluded
}

func ExampleAssembler() {
	var prompts agentctx.Assembler // one for the whole program
	in := agentctx.Input{
		Files: agentctx.LoadWorkspace(fstest.MapFS{
			"AGENTS.md": {Data: []byte("Answer in one sentence.\n")},
		}, "AGENTS.md"),
		Tools: []agentctx.Tool{{Name: "read", Summary: "Read a file."}},
		Now:   time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC),
	}
	for _, name := range []string{"ada", "bob"} { // the second finds what the first has made
		in.Session = session.Must(session.NamedKey("main", name))
		p := prompts.Assemble(in)
		fmt.Println(p.Mode, len(p.Sections) > 1, p.String() == agentctx.Assemble(in).String())
	}
	// Output:
	// full true true
	// full true true
}

func ExampleSpec_Or() {
	key := session.Must(session.Parse("agent:writer:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"))
	defaults := agentctx.Spec{Overflow: agentctx.OverflowRefuse}
	agent := agentctx.PersonaSpec()
	spawn := agentctx.Spec{Skills: []string{"style-guide"}}

	spec := spawn.Or(agent).Or(defaults).Or(agentctx.SpecFor(key))
	fmt.Println(spec.Mode, spec.Files, spec.Skills, spec.History, spec.Overflow)
	// Output: minimal [AGENTS.md SOUL.md TOOLS.md IDENTITY.md] [style-guide] isolated refuse
}

func ExampleTaskMessage() {
	fmt.Println(
		agentctx.TaskMessage(agentctx.Subagent{Depth: 1, MaxDepth: 2}, "Count the files in docs/."),
	)
	// Output:
	// [Subagent Context] You are running as a sub-agent (depth 1/2). Your final message is handed back automatically to what started you.
	//
	// [Subagent Task]: Count the files in docs/.
}

func ExampleLoader() {
	workspace := fstest.MapFS{
		"AGENTS.md":              {Data: []byte("Answer in one sentence.\n")},
		"memory/2026-11-20.md":   {Data: []byte("It rained.\n")},
		"packages/api/AGENTS.md": {Data: []byte("Run the linter.\n")},
	}
	loader := agentctx.Loader{
		Memory: true,
		Extra:  []string{"packages/*/AGENTS.md"},
		Hooks: []agentctx.Hook{
			func(_ agentctx.LoadRequest, files []agentctx.WorkspaceFile) []agentctx.WorkspaceFile {
				return append(
					files,
					agentctx.WorkspaceFile{
						Name: "USER.md", Content: "a sub-agent does not see this",
					},
				)
			},
		},
	}
	files := loader.Load(agentctx.LoadRequest{
		Session: session.Must(
			session.Parse("agent:main:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"),
		),
		// A name without a directory is that of a file at the root of the workspace.
		Spec:      agentctx.Spec{Files: []string{"AGENTS.md", "TOOLS.md", "packages/*/AGENTS.md"}},
		Workspace: workspace,
	})
	for _, f := range files {
		fmt.Println(f.Name, f.Reason)
	}
	// Output:
	// AGENTS.md whole
	// TOOLS.md absent
	// packages/api/AGENTS.md whole
}

func ExamplePrompt_Report() {
	p := agentctx.Assemble(agentctx.Input{
		Session: session.Must(session.Parse("agent:main:cron:daily")),
		Files: []agentctx.WorkspaceFile{
			{
				Name:    "AGENTS.md",
				Content: "Water the plants, feed the cat, and lock the door when you leave the house, please.",
			},
		},
		Limits: agentctx.Limits{File: 80},
	})
	for _, a := range p.Files {
		fmt.Printf("%s: %d of %d runes, %s\n", a.Name, a.Kept, a.Runes, a.Why)
	}
	// Output: AGENTS.md: 80 of 83 runes, cut: 83 runes, over the file limit of 80
}

func ExampleDiscoverSkills() {
	workspace := fstest.MapFS{
		"pdf/SKILL.md": {Data: []byte("---\nname: pdf\ndescription: Fill in forms.\n---\n")},
		"video/SKILL.md": {
			Data: []byte(
				"---\nname: video\ndescription: Cut films.\nmetadata:\n  offshoot:\n    requires: {bins: [ffmpeg]}\n---\n",
			),
		},
	}
	entries, _ := agentctx.DiscoverSkills(
		agentctx.SkillSource{Origin: agentctx.SkillWorkspace, FS: workspace, Path: "skills"},
	)
	host := agentctx.SkillHost{HasBin: (&agentctx.Bins{Path: "/nowhere"}).Has}
	snapshot := agentctx.SnapshotSkills(entries, host, agentctx.Spec{Skills: []string{"*"}})
	fmt.Println(snapshot.Visible())
	fmt.Println(snapshot.Excluded[0].Name, snapshot.Excluded[0].Why)
	// Output:
	// [{pdf Fill in forms. skills/pdf/SKILL.md}]
	// video needs the program "ffmpeg"
}
