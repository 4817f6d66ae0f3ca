package command

import (
	"fmt"
	"time"
)

// A Command is what a person asks for: one of the types of this file. [Syntax.Parse] makes it of
// what the person typed. A program makes one by itself, for example of a button.
type Command interface {
	// Name returns the name of the command as a person types it, such as "/subagents kill".
	Name() string
	command()
}

// List asks for the sub-agents of the session: /subagents, /subagents list.
type List struct{}

// Help asks how the commands are written: /subagents help, and /subagents with a word that is not
// one of its actions.
type Help struct {
	Unknown string // the word; empty: the person asked for help
}

// Kill stops sub-agents and all below them: /subagents kill, /subagents stop, /kill.
type Kill struct {
	Target string // "all" and "*" are all that have not ended
}

// Log asks for what was said in a sub-agent's session: /subagents log.
type Log struct {
	Target string
	Limit  int  // messages, from 1 to 200; 0: 20
	Tools  bool // also the calls of tools and their results
}

// Info asks for what is known of a sub-agent: /subagents info.
type Info struct{ Target string }

// Send gives a sub-agent a message, which begins another run of it if it has ended, and waits for a
// while for the answer: /subagents send.
type Send struct{ Target, Text string }

// Steer gives a sub-agent that has not ended a message: /subagents steer, /steer, /tell.
type Steer struct{ Target, Text string }

// Spawn starts a sub-agent, whose end is said to the chat once: /subagents spawn.
type Spawn struct {
	Agent    string
	Task     string
	Model    string // --model; empty: as the rules say
	Thinking string // --thinking; empty: as the rules say
}

// Focus has a thread speak to a session: the one that the person is in, or else a new one. /focus.
type Focus struct{ Target string }

// Unfocus ends what Focus or a spawn has begun in the conversation that the person is in: /unfocus.
type Unfocus struct{}

// Agents asks for the sub-agents that have not ended or that a conversation is bound to: /agents.
type Agents struct{}

// A LimitKind says which limit of a binding is meant.
type LimitKind uint8

// The limits of a binding.
const (
	LimitIdle   LimitKind = iota // how long no one may write in the conversation
	LimitMaxAge                  // how old the binding may become
)

// String returns the word of a person for k: "idle" or "max-age".
func (k LimitKind) String() string {
	switch k {
	case LimitIdle:
		return "idle"
	case LimitMaxAge:
		return "max-age"
	}
	return fmt.Sprintf("LimitKind(%d)", uint8(k))
}

// Limit asks for a limit of the binding of the conversation that the person is in, or sets it:
// /session idle, /session max-age.
type Limit struct {
	Kind  LimitKind
	Set   bool          // false: the person asks what it is
	Value time.Duration // beside Set, up to 1,000,000 hours; 0: no limit
}

// Stop stops the session and all below it: /stop, and a phrase that means it.
type Stop struct {
	Phrase bool // the person has said it in words of a natural language
}

// Reset begins the conversation of the session anew: /new, /reset.
type Reset struct {
	Text string // what the person says first in it; may be empty
}

// Compact has the session make its conversation shorter: /compact.
type Compact struct{}

// Name implements [Command].
func (List) Name() string { return "/subagents list" }

// Name implements [Command].
func (Help) Name() string { return "/subagents help" }

// Name implements [Command].
func (Kill) Name() string { return "/subagents kill" }

// Name implements [Command].
func (Log) Name() string { return "/subagents log" }

// Name implements [Command].
func (Info) Name() string { return "/subagents info" }

// Name implements [Command].
func (Send) Name() string { return "/subagents send" }

// Name implements [Command].
func (Steer) Name() string { return "/subagents steer" }

// Name implements [Command].
func (Spawn) Name() string { return "/subagents spawn" }

// Name implements [Command].
func (Focus) Name() string { return "/focus" }

// Name implements [Command].
func (Unfocus) Name() string { return "/unfocus" }

// Name implements [Command].
func (Agents) Name() string { return "/agents" }

// Name implements [Command].
func (l Limit) Name() string { return "/session " + l.Kind.String() }

// Name implements [Command].
func (Stop) Name() string { return "/stop" }

// Name implements [Command].
func (Reset) Name() string { return "/reset" }

// Name implements [Command].
func (Compact) Name() string { return "/compact" }

func (List) command()    {}
func (Help) command()    {}
func (Kill) command()    {}
func (Log) command()     {}
func (Info) command()    {}
func (Send) command()    {}
func (Steer) command()   {}
func (Spawn) command()   {}
func (Focus) command()   {}
func (Unfocus) command() {}
func (Agents) command()  {}
func (Limit) command()   {}
func (Stop) command()    {}
func (Reset) command()   {}
func (Compact) command() {}
