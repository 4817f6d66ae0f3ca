package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session/binding"
	"github.com/offshoot-sdk/offshoot/spawn"
)

var (
	// ErrNotFocused says that the conversation is not bound to a session.
	ErrNotFocused = errors.New("command: the conversation is not focused")

	// ErrUnknownPerson says that a conversation is not bound, because the message does not say who
	// asks for it: its From.ID is empty, or that of [binding.SystemOwner].
	ErrUnknownPerson = errors.New("command: it is not known who asks for it")

	// ErrSlow says that a message came too soon behind another one to the same sub-agent.
	ErrSlow = errors.New("command: a sub-agent takes one message in 2 seconds")
)

// A TargetError says that a target does not name a sub-agent, or may name several.
type TargetError struct {
	Command    string
	Target     string
	Candidates []Row // what it may mean, if that are several
	err        error
}

// Error says why. It may have what a model has chosen, such as a label.
func (e *TargetError) Error() string { return fmt.Sprintf("command: %s: %v", e.Command, e.err) }

// Unwrap returns the cause.
func (e *TargetError) Unwrap() error { return e.err }

// maxCandidates is how many candidates a person is shown.
const maxCandidates = 10

// words says to a person what could be meant.
func (e *TargetError) words() string {
	said := text.Quote(text.Line(e.Target))
	if len(e.Candidates) == 0 {
		return said + " is not a sub-agent of this conversation. /subagents lists them."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s may be any of these; name one by its number or its run id:", said)
	for i, c := range e.Candidates {
		if i == maxCandidates {
			fmt.Fprintf(&b, "\nand %d more", len(e.Candidates)-i)
			break
		}
		b.WriteString("\n" + c.candidate())
	}
	return b.String()
}

// shown returns an error whose texts that a person or a model has chosen are as people may see
// them: what tells of it cuts them, so that mask masks them before. Of another error, such as that
// of a store, all masks the whole text.
func shown(err error, mask, all func(string) string) error {
	if e, ok := errors.AsType[*UsageError](err); ok {
		masked := *e
		masked.Value = mask(e.Value)
		return shownError(e.Value, masked.Value, &masked, err)
	}
	if e, ok := errors.AsType[*TargetError](err); ok {
		masked := *e
		masked.Target = mask(e.Target)
		if of, ok := errors.AsType[*agent.TargetError](e.err); ok {
			cause := *of
			cause.Target, masked.err = masked.Target, &cause
		}
		return shownError(e.Target, masked.Target, &masked, err)
	}
	if e, ok := errors.AsType[*policy.Refusal](err); ok {
		masked := e.Masked(mask)
		return shownError(e.Asked, masked.Asked, masked, err)
	}
	if err == nil {
		return nil
	}
	said := err.Error()
	masked := all(said)
	return shownError(said, masked, errors.New(masked), err)
}

// masker returns what masks the words of a line that a person has typed. A secret of several words
// is known as a whole only: of a line with one, no word is repeated that the masked line has not.
func (h *Handler) masker(line string) func(string) string {
	seen := h.rt.Shown(line)
	if seen == line {
		return h.rt.Shown
	}
	seen = strings.ToLower(seen)
	return func(word string) string {
		masked := h.rt.Shown(word)
		if masked == word && !strings.Contains(seen, strings.ToLower(word)) {
			return "***"
		}
		return masked
	}
}

// shownError returns the error masked in the place of err, if it differs.
func shownError(given, shown string, masked, err error) error {
	if given == shown {
		return err
	}
	return &maskedError{masked, err}
}

// A maskedError tells what the first error does, and is the second one, too.
type maskedError struct{ masked, err error }

func (e *maskedError) Error() string { return e.masked.Error() }

// Unwrap returns both, the masked one first: that is what errors.As finds.
func (e *maskedError) Unwrap() []error { return []error{e.masked, e.err} }

// words says to a person why a command was not done. What it does not know it does not tell: the
// text of an error is for the log.
func words(err error) string {
	if e, ok := errors.AsType[*UsageError](err); ok {
		return e.words()
	}
	if e, ok := errors.AsType[*TargetError](err); ok {
		return e.words()
	}
	if e, ok := errors.AsType[*policy.Refusal](err); ok {
		return refusalWords(e)
	}
	if e, ok := errors.AsType[*spawn.VetoError](err); ok {
		return "That was refused: " + text.Line(e.Reason) + "."
	}
	if _, ok := errors.AsType[*agent.ChildrenError](err); ok {
		return "Sub-agents of this conversation are at work. Stop them with /kill all, or wait for " +
			"them, and say it again."
	}
	if e, ok := errors.AsType[*agent.StillRunningError](err); ok {
		return "It was stopped, but " + text.Count(max(1, len(e.Sessions)), "part", "parts") +
			" of it did not end in time."
	}
	if e, ok := errors.AsType[*agent.LimitError](err); ok {
		return fmt.Sprintf("That is too long: it has %d %s, and %d at most are taken.",
			e.Size, e.Unit, e.Limit)
	}
	if said := knownWords(err); said != "" {
		return said
	}
	if _, ok := errors.AsType[*agent.InputError](err); ok {
		return "That cannot be done here."
	}
	return "That did not work. Nothing more is known; the log of the bot has the reason."
}

// knownErrors are what people are told of errors, the more special ones first.
var knownErrors = []struct {
	err   error
	words string
}{
	{ErrNotFocused, "This conversation is not currently focused."},
	{ErrUnknownPerson, "It is not known who you are here, so that nothing can be focused for you."},
	{ErrSlow, "That sub-agent takes one message in 2 seconds. Say it again."},
	{binding.ErrNotOwner, "Only the person who has focused this conversation may change that."},
	{agent.ErrArchived, "That session was archived."},
	{agent.ErrEnded, "That sub-agent is already finished."},
	{spawn.ErrStopping, "That sub-agent is being stopped."},
	{agent.ErrNotTopLevel, "This conversation speaks to a sub-agent, which cannot do that."},
	{agent.ErrNothing, "There is nothing to make shorter."},
	{agent.ErrKeyConflict, "That message was done already, as it was said first. Say it in a new one."},
	{agent.ErrBudget, "The budget of this conversation is spent."},
	{agent.ErrShutdown, "The bot is shutting down. Say it again later."},
	{errWaited, "That takes long. It may still happen; look again in a while."},
	{agent.ErrUnconfirmed, "It is not known whether that was recorded. Look before you say it again."},
	{agent.ErrNotRecorded, "That could not be recorded, and was not done. Say it again later."},
	{agent.ErrUnreadable, "What is on record cannot be read now. Say it again later."},
	{context.Canceled, "That was broken off."},
	{context.DeadlineExceeded, "That took too long."},
	{agent.ErrNotFound, "That is not on record."},
}

// ruleSteer is the rule of a steer that comes too soon.
const ruleSteer policy.Rule = "steerPause"

// knownWords returns what people are told of one of the knownErrors; empty: it is not one.
func knownWords(err error) string {
	for _, known := range knownErrors {
		if errors.Is(err, known.err) {
			return known.words
		}
	}
	return ""
}

// refusalWords says which rule has refused, without where that is configured.
func refusalWords(r *policy.Refusal) string {
	if r.Rule == agent.RuleThread {
		return "Conversations of this channel cannot be focused."
	}
	if r.Rule == ruleSteer {
		return knownWords(ErrSlow)
	}
	rule := r.Rule
	if rule == policy.RuleTarget && r.Op == "" {
		// A person learns no more than a model of which agents there are: see [policy.Rules.Admit].
		rule = policy.RuleAgents
	}
	said := "That was refused by the rule " + text.Line(string(rule))
	if asked := text.Line(r.Asked); asked != "" {
		said += ": asked for " + text.Shorten(asked, 100)
	}
	if limit := text.Line(r.Limit); limit != "" {
		said += ", allowed is " + text.Shorten(limit, 200)
	}
	return said + "."
}
