package policy

import (
	"slices"
	"strings"
)

const groupPrefix = "group:"

// groupPlugins is a group without built-in members, for [Rules.Groups] to fill.
const groupPlugins = groupPrefix + "plugins"

func isGroup(entry string) bool { return strings.HasPrefix(entry, groupPrefix) }

// The built-in groups, with the names of the field's reference system.
var (
	groupFS         = []string{"read", "write", "edit", "apply_patch"}
	groupRuntime    = []string{"exec", "process", "code_execution"}
	groupWeb        = []string{"web_search", "web_fetch", "x_search"}
	groupMemory     = []string{"memory_search", "memory_get"}
	groupSessions   = []string{"sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "sessions_yield", "subagents", "session_status"}
	groupUI         = []string{"browser", "canvas"}
	groupMessaging  = []string{"message"}
	groupAutomation = []string{"cron", "gateway"}
	groupNodes      = []string{"nodes"}
	groupAgents     = []string{"agents_list", "update_plan"}
	groupMedia      = []string{"image", "image_generate", "music_generate", "video_generate", "tts"}
	groupOpenClaw   = slices.Concat([]string{
		"code_execution",
	}, groupWeb, groupMemory, groupSessions, groupUI, groupMessaging,
		groupAutomation, groupNodes, groupAgents, groupMedia)
)

// builtinGroup returns the members of a built-in group, or nil.
func builtinGroup(name string) []string {
	switch name[len(groupPrefix):] {
	case "fs":
		return groupFS
	case "runtime":
		return groupRuntime
	case "web":
		return groupWeb
	case "memory":
		return groupMemory
	case "sessions":
		return groupSessions
	case "ui":
		return groupUI
	case "messaging":
		return groupMessaging
	case "automation":
		return groupAutomation
	case "nodes":
		return groupNodes
	case "agents":
		return groupAgents
	case "media":
		return groupMedia
	case "openclaw":
		return groupOpenClaw
	}
	return nil
}

// group returns the members of a group by its canonical name, or nil.
func (r *Rules) group(name string) []string {
	if members := builtinGroup(name); members != nil {
		return members
	}
	if members, ok := r.Groups[name]; ok {
		return members
	}
	for key, members := range r.Groups {
		if canonicalTool(key) == name {
			return members
		}
	}
	return nil
}

// ExpandTools returns what a list of names, globs and groups stands for: canonical names and globs,
// each once, groups replaced by their members. A group that does not exist stays as it is and
// matches nothing; a blank entry is left out.
func (r *Rules) ExpandTools(list []string) []string {
	var out []string
	add := func(entry string) {
		if entry != "" && !slices.Contains(out, entry) {
			out = append(out, entry)
		}
	}
	for _, entry := range list {
		entry = canonicalTool(entry)
		var members []string
		if isGroup(entry) {
			members = r.group(entry)
		}
		if members == nil {
			add(entry)
			continue
		}
		for _, member := range members {
			add(canonicalTool(member))
		}
	}
	return out
}

// profile returns the list that a profile allows; limited is false for one that allows everything.
// An unknown profile allows nothing.
func profile(name string) (allow []string, limited bool) {
	switch canonicalID(name) {
	case "", "full":
		return nil, false
	case "minimal":
		return profileMinimal, true
	case "coding":
		return profileCoding, true
	case "messaging":
		return profileMessaging, true
	}
	return nil, true
}

var (
	profileNames     = []string{"minimal", "coding", "messaging", "full"}
	profileMinimal   = []string{"session_status"}
	profileCoding    = []string{"group:fs", "group:runtime", "group:memory", "group:sessions", "cron", "image"}
	profileMessaging = []string{"sessions_list", "sessions_history", "sessions_send", "session_status", "message"}
)
