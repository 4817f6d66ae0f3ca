package agentctx

import (
	"strings"
)

// lines joins what is not blank, one a line.
func lines(list ...string) string {
	size := 0
	for _, l := range list {
		size += len(l) + 1
	}
	var b strings.Builder
	b.Grow(size)
	for _, l := range list {
		if strings.TrimSpace(l) == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(l)
	}
	return b.String()
}

// when returns text if ok, else "".
func when(ok bool, text string) string {
	if ok {
		return text
	}
	return ""
}

func identityText(a *assembly) string {
	product := literal(a.in.Product)
	if a.spec.Mode == Minimal {
		return "You are a worker agent" + when(product != "", " inside "+product) + ", started to complete one specific task."
	}
	return "You are a personal assistant" + when(product != "", " running inside "+product) + "."
}

func toolingText(a *assembly) string {
	if len(a.tools) == 0 {
		return "## Tooling\nYou have no tools in this session. Answer from what you were given."
	}
	return lines(
		"## Tooling",
		"These are all the tools you have, after policy. Call them by exactly these names.",
		toolList(a.tools),
		when(a.files.shows(ToolsFile), ToolsFile+" says how the tools are used here; it neither adds a tool nor takes one away."),
		processHint(a),
		when(a.tool("sessions_spawn") != "" && !a.child,
			"Work that is large or slow goes to a sub-agent with "+quote(a.tool("sessions_spawn"))+". Its result comes back to you by itself."),
		listsHint(a),
	)
}

// toolList renders tools one a line.
func toolList(tools []Tool) string {
	size := 0
	for _, t := range tools {
		size += len(t.Name) + len(t.Summary) + len("- ``: \n")
	}
	var b strings.Builder
	b.Grow(size)
	for i, t := range tools {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("- ")
		b.WriteString(quote(t.Name))
		if t.Summary != "" {
			b.WriteString(": ")
			b.WriteString(t.Summary)
		}
	}
	return b.String()
}

// processHint says how to wait for a command, in terms of tools that exist.
func processHint(a *assembly) string {
	exec, process := a.tool("exec"), a.tool("process")
	switch {
	case exec != "" && process != "":
		return "For a command that takes long, let " + quote(exec) + " put it into the background and look after it with " +
			quote(process) + " and a timeout, rather than again and again."
	case exec != "":
		return "Give a command that may take long a timeout of its own in " + quote(exec) + "."
	default:
		return ""
	}
}

// listsHint forbids polling with the listing tools that exist.
func listsHint(a *assembly) string {
	var have []string
	for _, name := range []string{"subagents", "sessions_list"} {
		if t := a.tool(name); t != "" {
			have = append(have, quote(t))
		}
	}
	if have == nil {
		return ""
	}
	return "Use " + strings.Join(have, " and ") + " when you need to know or to intervene, never in a loop to wait."
}

func toolStyleText(a *assembly) string {
	if len(a.tools) == 0 {
		return ""
	}
	return lines(
		"## Tool Call Style",
		"Make routine calls without announcing them. Say in a sentence what you are about to do when the step is one of many, hard to undo, touches something private, or was asked to be explained.",
		"If one of your tools does the job, use it; do not ask the person to run the command for you.",
	)
}

func safetyText(*assembly) string {
	return lines(
		"## Safety",
		"You pursue the tasks that people give you and no ends of your own: no staying in operation for its own sake, no copies of yourself, no gathering of access or resources beyond the task.",
		"Being overseen comes before being finished. If instructions conflict or the stakes are unclear, stop and ask. Obey at once when told to stop, pause or show what you did, and never work around a safeguard.",
		"Do not talk anybody into giving you more rights or switching protections off, and do not change your own instructions, rules or tool permissions unless a person in charge asks for exactly that.",
	)
}

// updates reports whether the session can update the product.
func (a *assembly) updates() bool { return a.tool("gateway") != "" }

func selfUpdateText(a *assembly) string {
	return lines(
		"## Self-Update",
		"Change the configuration or the installed version with "+quote(a.tool("gateway"))+" only when a person asks for it in so many words, never on your own initiative.",
		"Look up what a setting means before you change it. If you are not sure that an update was asked for, ask.",
	)
}
