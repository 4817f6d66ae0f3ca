// Package policy decides what a sub-agent may be and do: whether it may be spawned, as which agent, how deep, with which model, time,
// tools and sandbox, and which other sessions it may see and control.
//
// The package is pure. [Rules] are plain data, every question is answered from its arguments alone, and every answer explains itself: a
// [*Refusal] names the rule, what was asked, what is allowed and where that is set; a [Grant] says where each value comes from; a
// [ToolVerdict] names the rule that removed a tool. [Rules.Validate] reports every mistake at once.
//
//	Caller, Request
//	      |
//	      v
//	 id -> record -> depth, role -> counts -> agent allowed? -> sandbox -> configured? -> means     or a *Refusal
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
//	    Grant  --store-->  Authority  --every turn, today's rules-->  Effective, which is never more
//
// # Limits
//
// A zero field of [Subagents] is the default, which for some is no limit, and [Off] turns a duration off. A tree is one level deep unless MaxSpawnDepth says otherwise; a
// sub-agent above the last level is an orchestrator and may spawn, one at the last level is a leaf and may not. The role is stored when
// the session is made: a lower limit later demotes at once, a higher one never promotes.
//
// # Tools
//
// Every stage only removes, so their order does not change what is left, only which rule is named for a tool that two remove. Sub-agents
// are denied the tools of [DefaultDeny] until [Rules.SubagentTools] name one exactly; sessions_spawn at a leaf nothing lifts. What a session
// may use and what it may hand down are two sets, equal unless its agent says otherwise: see [ToolPolicy].
//
// # Other sessions
//
// [Rules.Authorize] is asked before a session lists, reads, writes to, steers or stops another. What it sees is a matter of
// configuration; what it controls is what it spawned, and what is below that.
//
// All functions and methods may be called from any number of goroutines.
package policy
