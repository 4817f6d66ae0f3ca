package tree

import (
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Question is what deciding a Spawn must know from a function of the caller. No such function is
// called within a decision: it may panic, take its time, or call back. Its answer comes with the
// command, which is decided again for that.
type Question struct {
	Model string // whether this model is valid; empty: the question is about a sandbox
	Agent string // whether a session of this agent ...
	Key   session.Key
}

// Answers are what the functions of the caller have answered for one command.
type Answers map[Question]bool

// A QuestionsError says that a command was not decided, because answers are missing. Nothing has
// changed.
type QuestionsError struct{ Questions []Question }

func (e *QuestionsError) Error() string {
	return "spawn: " + text.Count(len(e.Questions), "answer is", "answers are") + " missing"
}

// asker answers the questions of one decision, and notes those that have no answer.
type asker struct {
	answers Answers
	open    []Question
}

// newAsker returns an asker, or nil for a tree whose decisions ask nothing.
func (t *Tree) newAsker(answers Answers) *asker {
	if !t.opt.AskModels && t.opt.Rules.Sandbox.Decide == nil {
		return nil
	}
	return &asker{answers: answers}
}

func (a *asker) ask(q Question) bool {
	yes, known := a.answers[q]
	if !known && !slices.Contains(a.open, q) {
		a.open = append(a.open, q)
	}
	return yes
}

// missing returns a *QuestionsError if a question has no answer.
func (a *asker) missing() error {
	if a == nil || len(a.open) == 0 {
		return nil
	}
	return &QuestionsError{a.open}
}

// validModel returns the function that tells policy which models are valid, nil for all.
func (t *Tree) validModel(a *asker) func(string) bool {
	if !t.opt.AskModels {
		return nil
	}
	return func(model string) bool { return a.ask(Question{Model: model}) }
}

// rules returns the rules, which ask a in place of the caller's Sandbox.Decide.
func (t *Tree) rules(a *asker) *policy.Rules {
	if t.opt.Rules.Sandbox.Decide == nil {
		return t.opt.Rules
	}
	rules := *t.opt.Rules
	rules.Sandbox.Decide = func(agent string, key session.Key) bool {
		return a.ask(Question{Agent: agent, Key: key})
	}
	return &rules
}
