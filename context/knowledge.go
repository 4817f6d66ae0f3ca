package agentctx

import (
	"maps"
	"slices"
	"strings"
)

// recalls reports whether the session can search its memory.
func (a *assembly) recalls() bool { return a.first("memory_search", "memory_get") != "" }

func memoryText(a *assembly) string {
	search, get := a.tool("memory_search"), a.tool("memory_get")
	how := "Before you answer about earlier work, decisions, dates, people, preferences or open tasks, "
	switch {
	case search != "" && get != "":
		how += "search with " + quote(search) + " and read the lines you need with " + quote(get) + "."
	case search != "":
		how += "search with " + quote(search) + "."
	default:
		how += "read the notes that bear on it with " + quote(get) + "."
	}
	cite := "Where it helps a person to check, name the source as path#line."
	if a.in.HideCitations {
		cite = "Do not name paths or lines of memory files unless you are asked for them."
	}
	return lines(
		"## Memory Recall",
		how,
		"If you are still unsure after that, say that you looked.",
		cite,
	)
}

func aliasesText(a *assembly) string {
	var list []string
	for _, alias := range slices.Sorted(maps.Keys(a.in.Aliases)) {
		short, model := quote(alias), quote(a.in.Aliases[alias])
		if short != "" && model != "" {
			list = append(list, "- "+short+": "+model)
		}
	}
	if list == nil {
		return ""
	}
	return lines(
		"## Model Aliases",
		"Where a model is to be named, prefer the short name; the full one works too.",
		strings.Join(list, "\n"),
	)
}

func workspaceText(a *assembly) string {
	dir := quote(a.in.Env.Dir)
	if a.in.Sandbox.Enabled && a.in.Sandbox.Dir != "" {
		dir = quote(a.in.Sandbox.Dir)
	}
	where := "Relative paths start at your working directory."
	if dir != "" {
		where = "Your working directory is " + dir + ". Relative paths in tool calls start there; create and change files there and nowhere else unless you are told to."
	}
	notes := make([]string, 0, len(a.in.Notes))
	for _, n := range a.in.Notes {
		if n = literal(n); n != "" {
			notes = append(notes, "- "+n)
		}
	}
	return lines("## Workspace", where, strings.Join(notes, "\n"))
}

func docsText(a *assembly) string {
	docs := quote(a.in.Docs)
	if docs == "" {
		return ""
	}
	return lines(
		"## Documentation",
		"The documentation of the program that runs you is at "+docs+". For questions about its behaviour, commands or configuration look there first, and only then elsewhere.",
		when(a.tool("exec") != "", "To find out how things stand, run the command yourself if you may, instead of asking for its output."),
	)
}

func sandboxText(a *assembly) string {
	s := a.in.Sandbox
	if !s.Enabled {
		return ""
	}
	access := map[string]string{
		"none": "The agent's workspace is not visible inside.",
		"ro":   "The agent's workspace is visible inside and cannot be written.",
		"rw":   "The agent's workspace is visible inside and can be written.",
	}
	host := [...]string{Yes: "You may use the browser of the host.", No: "You may not use the browser of the host.", Untold: ""}
	mount, dir := quote(s.Mount), quote(s.Dir)
	elevated := literal(s.Elevated)
	return lines(
		"## Sandbox",
		"Your tools run inside a sandbox. Some may be missing or refuse because of its policy; report that rather than looking for a way out.",
		when(a.tool("sessions_spawn") != "", "Sub-agents that you start are in a sandbox no weaker than yours."),
		when(dir != "", "Inside, the working directory is "+dir+"."),
		when(mount != "", "It is mounted from "+mount+" of the host; file tools take paths as they are inside."),
		access[s.Access],
		when(s.BrowserURL != "", "People can watch the browser inside at "+quote(s.BrowserURL)+"."),
		host[min(s.HostBrowser, No)],
		when(elevated != "", "Commands outside of the sandbox are possible for authorized people; the level is now "+quote(elevated)+". Do not ask for more than the task needs."),
	)
}
