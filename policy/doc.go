// Package policy decides what a sub-agent may be and do: whether it may be spawned, as which agent,
// how deep, with which model, time, tools and sandbox, and which other sessions it may see and
// control.
//
// The package is pure. [Rules] are plain data, every question is answered from its arguments alone,
// and every answer explains itself: a [*Refusal] names the rule, what was asked, what is allowed
// and where that is set; a [Grant] says where each value comes from; a [ToolVerdict] names the rule
// that removed a tool.
//
// # Where to begin
//
// Begin with [Rules] in rules.go, the configuration, and with [Rules.Admit] in admit.go, which
// decides one spawn and reads from top to bottom in the order of its checks. These are the
// questions:
//
//   - [Rules.Validate] returns every mistake of a configuration at once.
//   - [Rules.Admit] decides whether a [Caller] may spawn what a [Request] asks for. [Rules.Targets]
//     lists the agents that it may spawn.
//   - [Rules.TopAuthority] and [Rules.Effective] say what a session may use and hand down today.
//   - [Rules.FilterTools] and [Rules.ExplainTools] answer that for single tools.
//   - [Rules.Authorize] decides whether a session may see, message or control another.
//
// The path of a spawn:
//
//	Caller, Request
//	      |
//	      v
//	 agent id -> record -> depth, role -> counts -> agent named? -> agent allowed? -> sandbox
//	      -> agent configured? -> blocked completions, budget                     or a *Refusal
//	      |
//	      v
//	 model, thinking, timeout:   request  >  target agent  >  defaults  >  caller
//	      |
//	      v
//	 tools:   what the caller may hand down
//	            and  profile, every session, agent, each also by provider
//	            and  conversation  and  sandbox  and  sub-agents  and  what the spawn asks for
//	      |
//	      v
//	    Grant  --store-->  Authority
//
// The path of a session's rights, at every turn and call:
//
//	TopAuthority, today's rules
//	      |
//	      v
//	 Effective:  the Authority of its child, within today's rules and what is above
//	      |
//	      v
//	 ... down to the session itself: never more than it was given, or than the one above it has
//
// # Limits
//
// A zero field of [Subagents] is the default, which for some fields means unlimited, and [Off]
// turns a duration off, or [Rules.MaxSessions]. A tree is one level deep unless MaxSpawnDepth says
// otherwise. A sub-agent above the last level is an orchestrator and may spawn; one at the last
// level is a leaf and may not. The role is stored when the session is made: a lower limit later
// demotes at once, a higher one never promotes.
//
// # Tools
//
// Every stage only removes. The order of the stages therefore does not change which tools are left,
// only which rule is named for a tool that two stages remove. Sub-agents are denied the tools of
// [DefaultDeny] until [Rules.SubagentTools] name one exactly. Nothing gives sessions_spawn to a
// leaf. What a session may use and what it may hand down are two sets, equal unless its agent says
// otherwise: see [ToolPolicy].
//
// What a turn may use depends on who speaks, too: [Rules.ForSenders] says what is left for the
// people for whom it works, and [Rules.Withheld] why a tool is not.
//
// # Other sessions
//
// A program calls [Rules.Authorize] before a session lists, reads, writes to, steers or stops
// another session. What a session sees is a matter of configuration. What it controls is what it
// spawned, and what is below that.
//
// All functions and methods may be called from any number of goroutines.
package policy
