package agent

import (
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
)

// PresetGoClaw makes c that of a bot whose main sessions have workers, and whose workers have none.
//
// It sets Rules.Subagents.MaxSpawnDepth to 1, Rules.MaxSessions to 30, Prompts.Input.Layout to
// [agentctx.LayoutGoClaw], and Prompts.Input.Markers to all core files, so that a prompt mentions
// each one that is missing. Call it before you set fields of c, since it overwrites these four; it
// leaves all others as they are.
//
// What of that bot is not there yet: its workers' keys. They are written
// agent:<agent>:subagent:<id>; keys with the word spawn in that place are read, and name sub-agents
// too.
func PresetGoClaw(c *Config) {
	c.Rules.Subagents.MaxSpawnDepth = 1
	c.Rules.MaxSessions = 30
	c.Prompts.Input.Layout = agentctx.LayoutGoClaw
	c.Prompts.Input.Markers = agentctx.CoreFiles()
}

// PresetClawdbot makes c that of the reference system's first months: sub-agents are all leaves,
// and are denied the four session tools of that time and nothing else.
//
// It sets Rules.Subagents.MaxSpawnDepth to 1, Rules.MaxSessions to 4, Rules.Subagents.Announce to
// [policy.AnnounceReply], and Rules.DefaultDeny. Call it before you set fields of c, since it
// overwrites these four; it leaves all others as they are.
//
// What of that bot is not there yet: the turn in which a sub-agent words its announcement
// ([policy.AnnounceTurn], which Open refuses), whose place its final text takes until then, and the
// announcement's form of status, result and notes.
func PresetClawdbot(c *Config) {
	c.Rules.Subagents.MaxSpawnDepth = 1
	c.Rules.MaxSessions = 4
	c.Rules.Subagents.Announce = policy.AnnounceReply
	c.Rules.DefaultDeny = []string{"sessions_list", "sessions_history", "sessions_send", toolSpawn}
}
