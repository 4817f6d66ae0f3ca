package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// prompts shows what a child does not see: the files of the workspace in the main prompt beside
// those in a sub-agent's, or with -all every section of the two.
func (s *story) prompts(ctx context.Context, _ options) error {
	whole, err := s.expected(ctx, chatKey)
	if err != nil {
		return err
	}
	part, err := s.expected(ctx, session.Must(chatKey.Child(placesAgent, session.NewID())))
	if err != nil {
		return err
	}
	if s.all {
		s.paper.title("1", "What each of them is told: the prompts, section by section")
		s.paper.table(sectionTable(whole, part))
	} else {
		s.paper.title("1", "What each of them is told: the workspace files in their prompts")
		t := &table{
			head:  []string{"file, in runes", "", "main", "sub-agent", ""},
			right: []bool{false, false, true, true},
		}
		addFiles(t, whole, part)
		s.paper.table(t)
	}
	s.paper.print()
	s.paper.text(
		"Persona, person, memory and conversation stay with main; a child gets the manual, the tools and its task. Which "+
			"files it sees is an allowlist (agentctx.Spec), applied after every hook.",
		dim,
	)
	return nil
}

// sectionTable lists the sections of two prompts side by side.
func sectionTable(whole, part agentctx.Prompt) *table {
	t := &table{
		head:  []string{"section", "class", "main", "sub-agent", ""},
		right: []bool{false, false, true, true},
	}
	for _, id := range sectionsOf(whole, part) {
		a, inMain := whole.Section(id)
		b, inChild := part.Section(id)
		class := a.Class
		if !inMain {
			class = b.Class
		}
		t.add(
			span{id, normal}, span{class.String(), dim}, size(a.Text, inMain),
			size(b.Text, inChild), remark(inMain, inChild),
		)
		if id == agentctx.SectionProject {
			addFiles(t, whole, part)
		}
	}
	t.rule()
	t.add(
		span{"runes in all", bold}, span{}, size(whole.String(), true), size(part.String(), true),
		span{},
	)
	return t
}

// expected returns the prompt that the Config gives a session, before it has had a turn.
func (s *story) expected(ctx context.Context, key session.Key) (agentctx.Prompt, error) {
	in, err := s.process.cfg.Input(ctx, key)
	in.Now = time.Now()
	return agentctx.Assemble(in), err
}

// sectionsOf returns the ids of the sections of two prompts, in the order of a prompt.
func sectionsOf(whole, part agentctx.Prompt) (ids []string) {
	rest := part.Sections
	for _, a := range whole.Sections {
		for len(rest) > 0 && rest[0].Class < a.Class {
			rest = appendOnly(&ids, rest, whole)
		}
		ids = append(ids, a.ID)
	}
	for len(rest) > 0 {
		rest = appendOnly(&ids, rest, whole)
	}
	return ids
}

// appendOnly takes the first section and appends its id unless the other prompt has it.
func appendOnly(ids *[]string, rest []agentctx.Section, other agentctx.Prompt) []agentctx.Section {
	if _, ok := other.Section(rest[0].ID); !ok {
		*ids = append(*ids, rest[0].ID)
	}
	return rest[1:]
}

// addFiles adds the workspace files below the section that they stand in.
func addFiles(t *table, whole, part agentctx.Prompt) {
	for _, a := range whole.Files {
		kept := 0
		seen := false
		for _, b := range part.Files {
			if b.Name == a.Name && b.Shown() {
				kept, seen = b.Kept, true
			}
		}
		mine, note := count(a.Kept, a.Shown()), remark(a.Shown(), seen)
		if !a.Shown() {
			note = span{a.Reason.String(), yellow}
		}
		t.add(span{"  " + a.Name, dim}, span{}, mine, count(kept, seen), note)
	}
}

func size(text string, there bool) span { return count(utf8.RuneCountInString(text), there) }

func count(n int, there bool) span {
	if !there {
		return span{"-", dim}
	}
	return span{strconv.Itoa(n), normal}
}

// remark says who does not see something.
func remark(inMain, inChild bool) span {
	switch {
	case inMain && !inChild:
		return span{"not for sub-agents", yellow}
	case inChild && !inMain:
		return span{"only for sub-agents", cyan}
	}
	return span{}
}

// checkPrompts compares the prompts of the real turns with those of the table.
func (s *story) checkPrompts(ctx context.Context) {
	same, first := 0, ""
	prompts := s.process.witness.firstPrompts()
	for key, got := range prompts {
		want, err := s.expected(ctx, key)
		if err == nil && got.StablePrefix() == want.StablePrefix() {
			same++
		} else if first == "" {
			first = key.String()
		}
	}
	s.paper.print()
	if first != "" {
		s.paper.text(
			fmt.Sprintf(
				"Only %d of %d prompts were what Config.Input had said; that of %s was not.", same,
				len(prompts), first,
			),
			red,
		)
		return
	}
	s.paper.text(
		fmt.Sprintf(
			"The stable part of all %d prompts was, byte for byte, what Config.Input had said before.",
			same,
		),
		dim,
	)
}
