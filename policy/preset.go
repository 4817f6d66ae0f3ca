package policy

// PresetOpenClaw returns the zero Rules: those of the field's reference system.
func PresetOpenClaw() Rules { return Rules{} }

// PresetClawdbot returns the rules of the reference system's first months: sub-agents are all leaves, are denied the four session tools
// and nothing else, and announce in a turn of their own. The form of the announcement is not policy.
func PresetClawdbot() Rules {
	return Rules{
		Subagents:   Subagents{MaxSpawnDepth: 1, Announce: AnnounceTurn},
		DefaultDeny: []string{"sessions_list", "sessions_history", "sessions_send", toolSpawn},
	}
}

// PresetGoClaw returns the rules of a bot whose main sessions have workers, and whose workers have none. What else makes that bot, the
// worker's identity, its prompt and its session keys, is not policy.
func PresetGoClaw() Rules { return Rules{Subagents: Subagents{MaxSpawnDepth: 1}} }
