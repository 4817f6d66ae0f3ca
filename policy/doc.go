// Package policy decides what a sub-agent may be and do: whether it may be spawned, as which agent, how deep, with which model, time,
// tools and sandbox, and which other sessions it may see and control.
//
// The package is pure. [Rules] are plain data, every question is answered from its arguments, and every answer explains itself: a
// [*Refusal] names the rule, what was asked, what is allowed and where that is set; a [Grant] says where each value comes from; a
// [ToolVerdict] names the rule that removed a tool.
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
//	            n  profile, global, agent, each also by provider
//	            n  conversation  n  sandbox  n  sub-agents  n  what the spawn asks for
//	      |
//	      v
//	    Grant
//
// All functions and methods may be called from any number of goroutines.
package policy
