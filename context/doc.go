// Package agentctx turns a session and a workspace into a prompt that can be
// reviewed. Its directory is called context; the package is not, so that it
// never stands in the way of the standard library's.
//
//	directory ── Seed ──► AGENTS.md SOUL.md TOOLS.md IDENTITY.md USER.md ...
//	                          │
//	     LoadWorkspace, Loader (guards, cache, hooks)
//	                          ▼
//	session.Key ─ SpecFor ─► Spec ─┐                    ┌─► String        what the model gets
//	tools, skills, env, sub-agent ─┼─ Input ─ Assemble ─┼─► StablePrefix  what an agent's sessions share
//	                       Files ──┘                    └─► Report        what became of every file
//
// # Who sees what
//
// A [Spec] says which files and skills a session sees and how much of the
// prompt it gets. [SpecFor] gives everything to sessions that are surely at
// the top, and to all others what a [WorkerSpec] needs: AGENTS.md, TOOLS.md, a
// minimal prompt. The spec is applied last, inside [Assemble], so no hook and
// no extra file gets around it. Specs lie over each other by [Spec.Or].
//
// # What comes in which order
//
// A [Prompt] is a list of sections. [ClassStable] ones come first and are the same
// for all sessions of an agent that have one spec, tools, sandbox and
// workspace, so a provider's cache serves them all; then those of the
// session, then what may change with every turn, such as the date. There is
// never a clock in it, and never a word of a tool that the session lacks.
//
//	stable       identity, tooling, tool call style, safety, skills, memory recall, self-update, model
//	             aliases, workspace, documentation, sandbox, authorized senders, reply tags, messaging,
//	             voice, reactions, reasoning format, project context, silent replies, heartbeats
//	per session  sub-agent context, or conversation context
//	per turn     date and zone, delegation, active sub-agents, runtime
//
// The caller may replace, drop, add and move sections with [Input.Extra],
// [Input.Drop] and [Input.Order].
//
// # What is cut
//
// Files are bounded by [Limits] in runes, strictly. What does not fit keeps
// its head and its tail around a marker; who gives way first is fixed; and
// whatever was cut, left out or not loaded is in the accounts of the Prompt
// with the figures, and named in the prompt itself.
//
// # What cannot be forged
//
// WorkspaceFile contents stand in fences longer than any run of backticks inside, so
// no file can pose as a section. Labels, paths, hosts and other values that
// somebody else chose are stripped of line breaks and invisible characters
// and quoted.
//
// # Purity
//
// Only loading, seeding, discovery and syncing touch a file system. [Assemble]
// is pure and total: equal input gives equal bytes, and no input makes it
// fail. Everything here is safe for concurrent use as long as nobody changes
// an argument meanwhile.
//
// Package contexttest makes golden files and assertions of prompts.
package agentctx
