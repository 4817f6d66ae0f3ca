package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// openSkills opens directories with skills. The caller calls closeAll, also after an error.
func openSkills(dirs []string) (sources []agentctx.SkillSource, closeAll func(), err error) {
	var roots []*os.Root
	closeAll = func() {
		for _, r := range roots {
			_ = r.Close() // nothing was written
		}
	}
	for _, dir := range dirs {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, closeAll, fmt.Errorf("skills: %w", err)
		}
		roots = append(roots, root)
		sources = append(sources, agentctx.SkillSource{FS: root.FS(), Path: dir})
	}
	return sources, closeAll, nil
}

// listSkills returns a table of the skills that a main session would take, and of those that this
// machine or their own front matter keeps out of it.
func listSkills(cfg agent.Config) (string, error) {
	s := cfg.Skills(session.Must(session.MainKey(session.DefaultAgent)))
	commands := make(map[string]string)
	for _, c := range s.Commands() {
		commands[c.Skill] = "/" + c.Name
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SKILL\tCOMMAND\tFILE\tSTATE")
	for _, e := range s.Skills {
		state := "in the prompt"
		if e.Hidden {
			state = "hidden from the prompt"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", plain(e.Name), plain(commands[e.Name]),
			plain(e.Path), state)
	}
	for _, f := range s.Excluded {
		fmt.Fprintf(w, "%s\t\t%s\t%s\n", plain(f.Name), plain(f.Path), plain(oneLine(f.Why)))
	}
	_ = w.Flush() // a strings.Builder does not fail
	return b.String(), brokenSkills(s.Excluded)
}

// oneLine returns a text without line breaks and tabs, which would break a table.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// brokenSkills returns an error for each SKILL.md that is passed over, or nil. One that is excluded
// or repeated is not broken.
func brokenSkills(reports []agentctx.FileReport) error {
	var errs []error
	for _, f := range reports {
		switch f.Reason {
		case agentctx.ReasonWhole, agentctx.ReasonExcluded, agentctx.ReasonRepeated,
			agentctx.ReasonOverSkills:
		default:
			errs = append(errs, fmt.Errorf("skill %s: %s", f.Path, oneLine(f.Why)))
		}
	}
	return errors.Join(errs...)
}
