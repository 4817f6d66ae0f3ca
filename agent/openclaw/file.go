package openclaw

// The types of this file are what is understood of an openclaw.json. A walker reads a file into
// them, and the JSON Schema is made of them. Their tags are:
//
//	json   the name of the member
//	want   the range of a number, "1..5", whose second end may be missing
//	enum   the words that a text may be
//	not    why a member that is known is not taken
//	of     what a text names: tools, by a name, glob or group
//	doc    what the member is, for the schema
//
// An object whose first field is an owned knows all its members. Of any other object, what is not
// here is listed, and what is not in the names of an others either is a mistake with
// Options.Strict.

type owned struct{}

// An others has, in its tag, the names of further members that are known and not taken, and why.
// The name * stands for all of them.
type others struct{}

// anything is a value that is not looked at.
type anything struct{}

type document struct {
	_        others             `names:"audio broadcast canvasHost cli diagnostics discovery media nodeHost secrets talk ui update web" not:"it is of the program that OpenClaw is"`
	Agents   agents             `json:"agents"`
	Tools    tools              `json:"tools"`
	Session  sessions           `json:"session"`
	Channels map[string]channel `json:"channels" doc:"By the name of the channel."`
	Models   models             `json:"models"`
	Skills   skills             `json:"skills"`
	Auth     auth               `json:"auth"`
	Commands commands           `json:"commands"`

	Schema    *anything `json:"$schema" not:"-"`
	Meta      *anything `json:"meta" not:"-"`
	Wizard    *anything `json:"wizard" not:"-"`
	Env       *anything `json:"env" not:"its variables are used where a text names them, and nowhere else"`
	Bindings  *anything `json:"bindings" not:"the transport names the agent of a chat in the key of its session"`
	Gateway   *anything `json:"gateway" not:"the program is the gateway"`
	Cron      *anything `json:"cron" not:"the program has its own clock, and tells a session with Runtime.Announce"`
	Hooks     *anything `json:"hooks" not:"the program has hooks as functions: Config.Hooks"`
	Messages  *anything `json:"messages" not:"the transport decides how messages look"`
	ACP       *anything `json:"acp" not:"a program of one's own is in Config.Runners.Runtimes"`
	Logging   *anything `json:"logging" not:"Config.Logger is the program's"`
	Browser   *anything `json:"browser" not:"only skills look at it, as a setting"`
	Plugins   *anything `json:"plugins" not:"the tools of plugins are Config.Tools"`
	Approvals *anything `json:"approvals" not:"the program asks people"`
	Memory    *anything `json:"memory" not:"the tools of the program keep memories"`
	MCP       *anything `json:"mcp" not:"the tools of servers are Config.Tools"`
}

type agents struct {
	_        owned
	Defaults defaults `json:"defaults"`
	List     []entry  `json:"list" doc:"The agents; the one with default, else the first, is the default agent."`
}

type defaults struct {
	_             others                `names:"blockStreamingBreak blockStreamingChunk blockStreamingCoalesce blockStreamingDefault bootstrapPromptTruncationWarning cliBackends compaction contextInjection contextPruning contextTokens elevatedDefault embeddedPi envelopeElapsed envelopeTimestamp envelopeTimezone experimental heartbeat humanDelay imageGenerationModel imageMaxDimensionPx imageModel llm mediaMaxMb memorySearch params pdfMaxBytesMb pdfMaxPages pdfModel reasoningDefault repoRoot skipBootstrap startupContext systemPromptOverride timeFormat timeoutSeconds typingIntervalSeconds typingMode verboseDefault videoGenerationModel" not:"a Runner of the program does that, or nothing"`
	Subagents     subagents             `json:"subagents" doc:"Of every agent that does not say otherwise."`
	Model         *modelRef             `json:"model" doc:"What sessions run on."`
	Models        map[string]modelEntry `json:"models" doc:"By provider/model; if there is one, no others are used."`
	Thinking      *string               `json:"thinkingDefault" doc:"The thinking level of sessions."`
	Workspace     *string               `json:"workspace" doc:"The directory of the default agent."`
	BootstrapMax  *int64                `json:"bootstrapMaxChars" want:"1.." doc:"Characters of one file in a prompt."`
	BootstrapAll  *int64                `json:"bootstrapTotalMaxChars" want:"1.." doc:"Characters of all files in a prompt."`
	Zone          *string               `json:"userTimezone" doc:"The time zone of dates in prompts."`
	Skills        []string              `json:"skills" doc:"The skills of agents that do not name theirs."`
	Sandbox       sandbox               `json:"sandbox"`
	MaxConcurrent *int64                `json:"maxConcurrent" want:"1.." doc:"Turns of top-level sessions at a time."`
	Budget        *budget               `json:"budget" doc:"Of each tree of sessions."`
	RequestBudget *budget               `json:"requestBudget" doc:"Of each request of a person."`
}

type entry struct {
	_         others      `names:"embeddedPi fastModeDefault groupChat heartbeat humanDelay identity memorySearch params reasoningDefault runtime skillsLimits systemPromptOverride thinkingDefault verboseDefault" not:"a Runner or the transport of the program does that, or nothing"`
	ID        *string     `json:"id" need:"true" doc:"The id of the agent."`
	Default   *bool       `json:"default"`
	Name      *string     `json:"name"`
	Workspace *string     `json:"workspace" doc:"Its directory."`
	AgentDir  *string     `json:"agentDir" doc:"Where its credentials are."`
	Model     *modelRef   `json:"model"`
	Skills    []string    `json:"skills" doc:"The skills that its sessions may see."`
	Subagents ofAgent     `json:"subagents"`
	Sandbox   sandboxMode `json:"sandbox"`
	Tools     toolPolicy  `json:"tools"`
}

type budget struct {
	_      owned
	Tokens *int64   `json:"tokens" want:"0.."`
	Cost   *float64 `json:"cost" want:"0.." doc:"US dollars."`
	Turns  *int64   `json:"turns" want:"0.."`
}

// subagents are agents.defaults.subagents.
type subagents struct {
	_ owned
	ofAgent
	MaxSpawnDepth       *int64  `json:"maxSpawnDepth" want:"1..5" doc:"Levels of sub-agents."`
	MaxChildren         *int64  `json:"maxChildrenPerAgent" want:"1..20" doc:"Active children of a session."`
	MaxConcurrent       *int64  `json:"maxConcurrent" want:"1.." doc:"Turns of sub-agents at a time."`
	ArchiveAfterMinutes *int64  `json:"archiveAfterMinutes" want:"0.." doc:"After the end of a run; 0: never."`
	RunTimeoutSeconds   *int64  `json:"runTimeoutSeconds" want:"0.." doc:"Of a run; 0: none."`
	AnnounceTimeoutMs   *int64  `json:"announceTimeoutMs" want:"1.." doc:"Of a call that delivers."`
	MaxSpawns           *int64  `json:"maxSpawnsPerRun" want:"0.." doc:"Children of a sub-agent in its life; 0: any."`
	MaxTreeRuns         *int64  `json:"maxRunsPerTree" want:"0.." doc:"Runs of a tree in its life; 0: any."`
	MaxRunsPerRequest   *int64  `json:"maxRunsPerRequest" want:"0.." doc:"Runs that models spawn for a request; 0: any."`
	MaxBlocked          *int64  `json:"maxBlocked" want:"1.." doc:"Blocked completions that refuse spawns."`
	MaxRunTimeout       *int64  `json:"maxRunTimeoutSeconds" want:"0.." doc:"The longest timeout of a run; 0: any."`
	Budget              *budget `json:"budget" doc:"Of one run and what is below it."`
}

// ofAgent are agents.list[].subagents.
type ofAgent struct {
	_              owned
	AllowAgents    []string  `json:"allowAgents" doc:"The agents that it may spawn beside itself; *: every one."`
	RequireAgentID *bool     `json:"requireAgentId" doc:"A spawn must name its agent."`
	Model          *modelRef `json:"model"`
	Thinking       *string   `json:"thinking"`
	Announce       *string   `json:"announce" enum:"reply,turn" doc:"Where the text of an announcement comes from."`
	Delegation     *anything `json:"delegationMode" not:"prompts do not say how eagerly to delegate"`
}

type commands struct {
	_      others     `names:"*" not:"the transport reads commands"`
	Owners []personID `json:"ownerAllowFrom" doc:"Who is an owner: an id, a channel and an id as telegram:123, or *."`
}

// A personID is an id of a person, which may be a number.
type personID string

// A modelRef is a name, or an object with a name and others for when it fails.
type modelRef struct {
	_         owned
	Primary   *string  `json:"primary"`
	Fallbacks []string `json:"fallbacks" not:"a Model of the program falls back"`
}

type modelEntry struct {
	_     others  `names:"params streaming agentRuntime" not:"the model client is the program's"`
	Alias *string `json:"alias" doc:"A short name."`
}

type sandbox struct {
	sandboxMode
	SessionTools *string `json:"sessionToolsVisibility" enum:"spawned,all"`
}

type sandboxMode struct {
	_    others  `names:"backend browser docker perSession prune scope ssh workspaceAccess workspaceRoot" not:"the program provides the sandbox"`
	Mode *string `json:"mode" enum:"off,non-main,all" doc:"Which sessions run in a sandbox."`
}

type tools struct {
	_ others `names:"canvas cron elevated exec experimental fs image links loopDetection media message process web x_search" not:"the tools are the program's"`
	toolLists
	Profile    *string             `json:"profile" enum:"minimal,coding,messaging,full"`
	ByProvider map[string]provider `json:"byProvider"`
	Groups     map[string][]string `json:"groups" of:"tools" doc:"Groups of tools of one's own: group:crm."`
	OwnerOnly  []string            `json:"ownerOnly" of:"tools" doc:"What owners alone may use."`

	BySender map[string]toolLists `json:"toolsBySender" doc:"By id:..., channel:<channel>:<id> or *."`

	Subagents    subagentTools `json:"subagents"`
	Sandbox      sandboxTools  `json:"sandbox"`
	Sessions     sessionTools  `json:"sessions"`
	AgentToAgent agentToAgent  `json:"agentToAgent"`
	Spawn        spawnTool     `json:"sessions_spawn"`
}

// toolPolicy is agents.list[].tools.
type toolPolicy struct {
	_ others `names:"elevated exec fs loopDetection message" not:"the tools are the program's"`
	toolLists
	Profile    *string             `json:"profile" enum:"minimal,coding,messaging,full"`
	ByProvider map[string]provider `json:"byProvider"`
	Delegable  *delegable          `json:"delegable" doc:"What its sessions may hand down."`
	Sandbox    sandboxTools        `json:"sandbox"`
}

type delegable struct {
	_     owned
	Allow []string `json:"allow" of:"tools" doc:"Names, globs and groups; empty: all."`
	Deny  []string `json:"deny" of:"tools" doc:"Wins."`
}

type provider struct {
	toolLists
	Profile *string `json:"profile" enum:"minimal,coding,messaging,full"`
}

type toolLists struct {
	Allow     []string `json:"allow" of:"tools" doc:"Names, globs and groups; empty: all."`
	AlsoAllow []string `json:"alsoAllow" of:"tools" doc:"Beside those of the profile."`
	Deny      []string `json:"deny" of:"tools" doc:"Wins."`
}

type subagentTools struct {
	_     owned
	Tools subagentLists `json:"tools"`
}

type subagentLists struct {
	_ owned
	toolLists
	DefaultDeny []string `json:"defaultDeny" of:"tools" doc:"What sub-agents are denied unless allow or alsoAllow name it."`
}

type sandboxTools struct {
	_     owned
	Tools ownedLists `json:"tools"`
}

type ownedLists struct {
	_ owned
	toolLists
}

type sessionTools struct {
	_          owned
	Visibility *string `json:"visibility" enum:"self,tree,agent,all" doc:"What a session sees."`
}

type agentToAgent struct {
	_       owned
	Enabled *bool    `json:"enabled"`
	Allow   []string `json:"allow" doc:"Globs of agent ids; empty: every agent."`
}

type spawnTool struct {
	_           owned
	Attachments attachments `json:"attachments"`
}

type attachments struct {
	_             owned
	Enabled       *bool    `json:"enabled" doc:"Models may attach files."`
	MaxTotalBytes *float64 `json:"maxTotalBytes"`
	MaxFiles      *float64 `json:"maxFiles"`
	MaxFileBytes  *float64 `json:"maxFileBytes"`
	Retain        *bool    `json:"retainOnSessionKeep"`
}

type sessions struct {
	_            others  `names:"agentToAgent dmScope identityLinks idleMinutes mainKey maintenance parentForkMaxTokens reset resetByChannel resetByType resetTriggers scope sendPolicy store typingIntervalSeconds typingMode writeLock" not:"the program makes the keys of sessions and says when they are reset"`
	Threads      threads `json:"threadBindings" doc:"Of every channel that does not say otherwise."`
	KeepArchives *int64  `json:"keepArchivesMinutes" want:"0.." doc:"How long archives are kept; 0: for ever."`
}

type threads struct {
	_           owned
	Enabled     *bool     `json:"enabled"`
	IdleHours   *float64  `json:"idleHours" want:"0..1000000" doc:"0: no limit."`
	MaxAgeHours *float64  `json:"maxAgeHours" want:"0..1000000" doc:"0: no limit."`
	Spawn       *bool     `json:"spawnSubagentSessions" doc:"A spawn may bind a conversation."`
	SpawnAny    *bool     `json:"spawnSessions" doc:"The same; spawnSubagentSessions counts before it."`
	SpawnACP    *anything `json:"spawnAcpSessions" not:"an external runtime is bound like any sub-agent"`
	Context     *anything `json:"defaultSpawnContext" not:"Task.Spec.History says it of a spawn"`
}

type channel struct {
	_        others             `names:"*" not:"the transport is the program's"`
	Threads  threads            `json:"threadBindings"`
	Accounts map[string]account `json:"accounts"`
	Groups   map[string]group   `json:"groups"`
}

type account struct {
	_       others  `names:"*" not:"the transport is the program's"`
	Threads threads `json:"threadBindings"`
}

type group struct {
	_     others    `names:"*" not:"the transport is the program's"`
	Tools toolLists `json:"tools" doc:"What the sessions of the conversation may use."`

	BySender map[string]toolLists `json:"toolsBySender" doc:"By id:..., channel:<channel>:<id> or *; in place of tools."`
}

type models struct {
	_         others                   `names:"bedrockDiscovery mode pricing" not:"the model client is the program's"`
	Providers map[string]modelProvider `json:"providers"`
}

type modelProvider struct {
	_      others  `names:"*" not:"the model client is the program's"`
	Models []model `json:"models"`
}

type model struct {
	_    others  `names:"*" not:"the model client is the program's"`
	ID   *string `json:"id"`
	Cost *cost   `json:"cost" doc:"US dollars a million tokens."`
}

type cost struct {
	_          owned
	Input      *float64 `json:"input" want:"0.."`
	Output     *float64 `json:"output" want:"0.."`
	CacheRead  *float64 `json:"cacheRead" want:"0.."`
	CacheWrite *float64 `json:"cacheWrite" want:"0.."`
}

type skills struct {
	_            others                `names:"install limits" not:"Config.Prompts.Skills has the sources of skills"`
	AllowBundled []string              `json:"allowBundled" doc:"The bundled skills that may be used; empty: all."`
	Load         skillLoad             `json:"load"`
	Entries      map[string]skillEntry `json:"entries"`
}

type skillLoad struct {
	_         others   `names:"watch watchDebounceMs allowSymlinkTargets" not:"Config.Prompts.Skills has the sources of skills"`
	ExtraDirs []string `json:"extraDirs"`
}

type skillEntry struct {
	_       others            `names:"config" not:"a skill asks for the settings of the file, as browser.enabled"`
	Enabled *bool             `json:"enabled"`
	APIKey  *string           `json:"apiKey" secret:"true"`
	Env     map[string]string `json:"env" secret:"true"`
}

type auth struct {
	_     others              `names:"profiles cooldowns" not:"the file auth-profiles.json has the credentials"`
	Order map[string][]string `json:"order" doc:"The ids of profiles that are tried, by provider."`
}
