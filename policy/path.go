package policy

// The places of the configuration, as a refusal or a mistake names them.
const (
	defaultsPath       = "agents.defaults.subagents"
	listPath           = "agents.list"
	sandboxPath        = "agents.defaults.sandbox"
	treeBudgetPath     = "agents.defaults.budget"
	toolsPath          = "tools"
	subagentToolsPath  = "tools.subagents.tools"
	sandboxToolsPath   = "tools.sandbox.tools"
	visibilityPath     = "tools.sessions.visibility"
	agentToAgentPath   = "tools.agentToAgent"
	maxSpawnDepthPath  = defaultsPath + ".maxSpawnDepth"
	maxChildrenPath    = defaultsPath + ".maxChildrenPerAgent"
	maxConcurrentPath  = defaultsPath + ".maxConcurrent"
	maxSpawnsPath      = defaultsPath + ".maxSpawnsPerRun"
	maxTreeRunsPath    = defaultsPath + ".maxRunsPerTree"
	maxBlockedPath     = defaultsPath + ".maxBlocked"
	timeoutPath        = defaultsPath + ".runTimeoutSeconds"
	archivePath        = defaultsPath + ".archiveAfterMinutes"
	runBudgetPath      = defaultsPath + ".budget"
	requireAgentIDName = ".requireAgentId"
	allowAgentsName    = ".allowAgents"
	spawnPath          = "sessions_spawn"
	lineagePath        = "session.Lineage" // no configuration changes it
)

// agentPath returns the place of an agent's entry.
func agentPath(id string) string { return listPath + "[" + canonicalID(id) + "]" }

// path returns the place of a conversation's entry.
func (c *Chat) path() string { return "channels." + canonicalID(c.Channel) + ".groups[" + c.Peer + "]" }
