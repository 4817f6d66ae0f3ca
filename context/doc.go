// Package agentctx assembles the system prompt of a session from its workspace and its key. Every
// prompt can be printed, compared and reviewed. The directory is called context, the package is
// not: the standard library's context keeps its name.
//
//	directory ── Seed ──► AGENTS.md SOUL.md TOOLS.md IDENTITY.md USER.md ...
//	                          │
//	     LoadWorkspace, Loader (guards, cache, hooks)
//	                          ▼
//	session.Key ─ SpecFor ─► Spec ─┐                    ┌─► String        what the model reads
//	tools, skills, env, sub-agent ─┼─ Input ─ Assemble ─┼─► StablePrefix  what sessions share
//	                       Files ──┘                    └─► Files         a report on each file
//
// # Where to begin
//
// Read [Assemble] in assemble.go first: it is the whole way from an [Input] to a [Prompt]. The
// table of sections is in section.go, their texts are in builtin.go, subagent.go and turn.go.
// spec.go decides what a session sees, loader.go and guard.go read files, limits.go and project.go
// cut them. The files that begin with skill, with catalog.go and eligibility.go, are about skills.
//
// Ten names are enough for most programs:
//
//	Input          everything that a prompt depends on
//	Assemble       builds the prompt
//	Prompt         the sections, with a report on each file and skill
//	Spec           which files and skills a session sees, and in which mode
//	WorkerSpec     the Spec of a sub-agent; InstructionsSpec and PersonaSpec are its variants
//	Loader         reads workspaces, with memory notes, extra files, hooks and a cache
//	LoadWorkspace  reads the core files without any of these
//	Limits         how many runes of the files and skills enter the prompt
//	FileReport     what became of one file or skill, and why
//	Seed           makes the core files of a new workspace
//
// # Who sees what
//
// A [Spec] says which files and skills a session sees and how much of the prompt it gets. [SpecFor]
// gives everything to sessions that are certainly top-level. All others get the [WorkerSpec]:
// AGENTS.md and TOOLS.md in a minimal prompt. [Assemble] applies the spec last, so neither a hook
// nor an extra file gets around it. [Spec.Or] lays one spec over another.
//
// # The order of the sections
//
// A [Prompt] is a list of sections. The [ClassStable] sections come first. They are the same for
// all sessions of an agent that have the same spec, tools, sandbox and workspace, so one entry in a
// provider's cache serves them all. The sections of the session follow, and then those that may
// change with every turn, such as the date. A prompt never has the time of day, and never mentions
// a tool that the session lacks.
//
//	stable       identity, tooling, tool call style, safety, skills, memory recall, self-update,
//	             model aliases, workspace, documentation, sandbox, authorized senders, reply tags,
//	             messaging, voice, reactions, reasoning format, project context, silent replies,
//	             heartbeats
//	per session  sub-agent context, or conversation context
//	per turn     date and zone, delegation, active sub-agents, runtime
//
// The caller replaces and adds sections with [Input.Extra], leaves them out with [Input.Drop] and
// moves them with [Input.Order].
//
// # What is cut
//
// [Limits] bound the files in runes. The bounds are strict. A file that does not fit keeps its head
// and its tail around a marker. The order in which files lose room is fixed. The reports of the
// Prompt list every file that was cut, left out or not loaded, with the figures, and the prompt
// itself names the files that did not fit.
//
// # What cannot be forged
//
// The content of a file stands between fences that are longer than any run of backticks inside, so
// a file cannot pose as a section. Labels, paths, hosts and other values from outside have a space
// in place of each line break, lose invisible characters, and are quoted.
//
// # Purity
//
// Only loading, seeding, discovery and syncing touch a file system. [Assemble] is pure and total:
// equal input gives equal bytes, and it does not fail for any input. Every function of the package
// is safe for concurrent use as long as its arguments do not change meanwhile. An [Assembler] is
// [Assemble] for a program that makes many prompts: it keeps what they have in common.
//
// Package contexttest has golden files and assertions for prompts.
package agentctx
