package policy

import (
	"fmt"
	"slices"
)

// A place is where a value is set: the Go path of a field of [Rules], and the path of the same
// value in the JSON configuration. What is not in the Rules has a path alone.
type place struct{ field, path string }

// String returns the Go path, with the configuration path beside it.
func (p place) String() string {
	switch {
	case p.field == "":
		return p.path
	case p.path == "":
		return p.field
	}
	return p.field + " (" + p.path + ")"
}

// dot returns the place of a member.
func (p place) dot(field, path string) place {
	return place{p.field + "." + field, p.path + "." + path}
}

// item returns the place of an item of a list.
func (p place) item(i int) place {
	index := fmt.Sprintf("[%d]", i)
	return place{p.field + index, p.path + index}
}

// entry returns the place of an entry of a map.
func (p place) entry(key string) place {
	return place{fmt.Sprintf("%s[%q]", p.field, key), p.path + "[" + key + "]"}
}

// refuse returns the refusal of a rule that is set there.
func (p place) refuse(rule Rule, asked, limit string) *Refusal {
	return &Refusal{Rule: rule, Asked: asked, Limit: limit, Field: p.field, Path: p.path}
}

// The places of the Rules, as a refusal or a mistake names them.
var (
	defaultsPlace      = place{"Rules.Subagents", SourceDefaults}
	listPlace          = place{"Rules.Agents", "agents.list"}
	sandboxPlace       = place{"Rules.Sandbox", "agents.defaults.sandbox"}
	sandboxModePlace   = sandboxPlace.dot("Mode", "mode")
	treeBudgetPlace    = place{"Rules.Budget", "agents.defaults.budget"}
	requestBudgetPlace = place{"Rules.RequestBudget", "agents.defaults.requestBudget"}
	toolsPlace         = place{"Rules.Tools", "tools"}
	groupsPlace        = place{"Rules.Groups", "tools.groups"}
	subagentToolsPlace = place{"Rules.SubagentTools", "tools.subagents.tools"}
	defaultDenyPlace   = place{"Rules.DefaultDeny", "tools.subagents.tools.defaultDeny"}
	sandboxToolsPlace  = place{"Rules.Sandbox.Tools", "tools.sandbox.tools"}
	seeAllPlace        = sandboxPlace.dot("SeeAll", "sessionToolsVisibility")
	visibilityPlace    = place{"Rules.Visibility", "tools.sessions.visibility"}
	agentToAgentPlace  = place{"Rules.AgentToAgent", "tools.agentToAgent"}
	ownersPlace        = place{"Rules.Owners", "commands.ownerAllowFrom"}
	ownerOnlyPlace     = place{"Rules.OwnerOnly", "tools.ownerOnly"}
	sendersPlace       = place{"Rules.Senders", "tools.toolsBySender"}
	maxSessionsPlace   = place{"Rules.MaxSessions", "agents.defaults.maxConcurrent"}
	attachmentsPlace   = place{"Rules.Attachments", "tools.sessions_spawn.attachments"}
	keepArchivesPlace  = place{"Rules.KeepArchives", "session.keepArchivesMinutes"}
	maxDepthPlace      = defaultsPlace.dot("MaxSpawnDepth", "maxSpawnDepth")
	maxChildrenPlace   = defaultsPlace.dot("MaxChildren", "maxChildrenPerAgent")
	maxConcurrentPlace = defaultsPlace.dot("MaxConcurrent", "maxConcurrent")
	maxSpawnsPlace     = defaultsPlace.dot("MaxSpawns", "maxSpawnsPerRun")
	maxTreeRunsPlace   = defaultsPlace.dot("MaxTreeRuns", "maxRunsPerTree")
	maxRequestPlace    = defaultsPlace.dot("MaxRunsPerRequest", "maxRunsPerRequest")
	maxBlockedPlace    = defaultsPlace.dot("MaxBlocked", "maxBlocked")
	timeoutPlace       = defaultsPlace.dot("Timeout", "runTimeoutSeconds")
	maxTimeoutPlace    = defaultsPlace.dot("MaxTimeout", "maxRunTimeoutSeconds")
	archivePlace       = defaultsPlace.dot("ArchiveAfter", "archiveAfterMinutes")
	runBudgetPlace     = defaultsPlace.dot("Budget", "budget")
)

// The places of what is not in the Rules.
const (
	spawnPath   = SourceRequest // what a model asks for
	requestPath = "Request"     // what a program asks for, or a Runner for a model
)

var (
	lineagePlace = place{} // who is above whom: no configuration changes it
	callerPlace  = place{path: "Caller.Role"}
)

// requestPlace returns the place of a field of the [Request].
func requestPlace(field string) place { return place{path: requestPath + "." + field} }

// agentPlace returns the place of an agent's entry.
func (r *Rules) agentPlace(id string) place {
	id = canonicalID(id)
	i := slices.IndexFunc(r.Agents, func(a Agent) bool { return canonicalID(a.ID) == id })
	if i < 0 {
		return listPlace.entry(id)
	}
	return place{listPlace.item(i).field, listPlace.path + "[" + id + "]"}
}

// chatPlace returns the place of the entry of a conversation, which is an item of r.Chats.
func (r *Rules) chatPlace(c *Chat) place {
	path := "channels." + canonicalID(c.Channel) + ".groups[" + c.Peer + "]"
	for i := range r.Chats {
		if c == &r.Chats[i] {
			return place{place{field: "Rules.Chats"}.item(i).field, path}
		}
	}
	return place{"Rules.Chats", path}
}

func agentSubagents(p place) place { return p.dot("Subagents", "subagents") }
