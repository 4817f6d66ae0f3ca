// Package agentctx turns a session and a workspace into a prompt that can be
// reviewed. Its directory is called context; the package is not, so that it
// never stands in the way of the standard library's.
//
//	fs.FS ──LoadWorkspace──► []File ──┐
//	session.Key ──SpecFor──► Spec ────┤
//	tools, skills, env, sub-agent ────┴──► Input ──Assemble──► Prompt
//	                                                            │
//	       String        what the model gets                    │
//	       StablePrefix  what all sessions of the agent share ◄─┤
//	       Report        what became of every file            ◄─┘
//
// Only loading reads; [Assemble] is pure and total.
package agentctx
