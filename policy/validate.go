package policy

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// A FieldError is one value of [Rules] that cannot be.
type FieldError struct {
	Path  string // "agents.defaults.subagents.maxSpawnDepth"
	Value string // "7"
	Want  string // "1 to 5"
}

// Error returns the mistake as one line.
func (e *FieldError) Error() string {
	return fmt.Sprintf("policy: %s is %s, want %s", e.Path, text.Quote(e.Value), e.Want)
}

// FieldErrors are all the mistakes of some [Rules], in the order of their fields.
type FieldErrors []*FieldError

// Error returns one line for each mistake.
func (e FieldErrors) Error() string {
	lines := make([]string, len(e))
	for i, f := range e {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the mistakes one by one, each a [*FieldError].
func (e FieldErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, f := range e {
		errs[i] = f
	}
	return errs
}

// Validate returns everything that is wrong with the rules at once, as [FieldErrors], or nil.
//
// [Rules.Admit] does not look again: it answers by what is written, and where that means nothing it
// fails closed.
func (r *Rules) Validate() error {
	v := validator{rules: r}
	v.subagents()
	v.agents()
	v.budget(treeBudgetPath, r.Budget)
	if n := r.MaxSessions; n != Off && (n < 0 || n > maxLimit) {
		v.add(maxSessionsPath, strconv.Itoa(n), "1 or more, or policy.Off")
	}
	v.groups()
	v.toolPolicy(toolsPath, &r.Tools)
	if r.Tools.Delegable != nil {
		v.add(toolsPath+".delegable", "set", "nothing here: it is set of an agent")
	}
	v.toolRules(subagentToolsPath, r.SubagentTools)
	if len(r.SubagentTools.Allow) > 0 && len(r.SubagentTools.AlsoAllow) > 0 {
		v.add(subagentToolsPath+".alsoAllow", strings.Join(r.SubagentTools.AlsoAllow, ", "), "nothing beside allow, which lifts default denies as well")
	}
	v.entries(subagentToolsPath+".defaultDeny", r.DefaultDeny)
	v.chats()
	v.toolRules(sandboxToolsPath, r.Sandbox.Tools)
	v.noAlsoAllow(sandboxToolsPath, r.Sandbox.Tools)
	v.enum(sandboxPath+".mode", int(r.Sandbox.Mode), sandboxModeNames[:])
	v.enum(visibilityPath, int(r.Visibility), visibilityNames[:])
	for i, entry := range r.AgentToAgent.Allow {
		if strings.TrimSpace(entry) == "" {
			v.add(fmt.Sprintf("%s.allow[%d]", agentToAgentPath, i), entry, "a glob of agent ids")
		}
	}
	if len(v.errs) == 0 {
		return nil
	}
	return v.errs
}

type validator struct {
	rules *Rules
	errs  FieldErrors
}

func (v *validator) add(path, value, want string) {
	v.errs = append(v.errs, &FieldError{Path: path, Value: value, Want: want})
}

// within refuses a limit that is not from 1 to most; zero is the default.
func (v *validator) within(path string, value, most int) {
	if value >= 0 && value <= most {
		return
	}
	want := fmt.Sprintf("1 to %d", most)
	if most == maxLimit {
		want = "1 or more"
	}
	v.add(path, strconv.Itoa(value), want)
}

// duration refuses a negative duration that is not Off.
func (v *validator) duration(path string, d time.Duration) {
	if d < 0 && d != Off {
		v.add(path, d.String(), "0s or more, or policy.Off")
	}
}

func (v *validator) enum(path string, value int, words []string) {
	if value >= len(words) {
		v.add(path, strconv.Itoa(value), strings.Join(words, ", "))
	}
}

func (v *validator) subagents() {
	s := &v.rules.Subagents
	v.within(maxSpawnDepthPath, s.MaxSpawnDepth, MaxSpawnDepth)
	v.within(maxChildrenPath, s.MaxChildren, MaxChildren)
	v.within(maxConcurrentPath, s.MaxConcurrent, maxLimit)
	v.within(maxSpawnsPath, s.MaxSpawns, maxLimit)
	v.within(maxTreeRunsPath, s.MaxTreeRuns, maxLimit)
	if s.MaxRunsPerRequest != Off && s.MaxRunsPerRequest < 0 {
		v.add(maxRequestPath, strconv.Itoa(s.MaxRunsPerRequest), "1 or more, or policy.Off")
	}
	v.within(maxBlockedPath, s.MaxBlocked, maxLimit)
	v.duration(timeoutPath, s.Timeout)
	v.duration(archivePath, s.ArchiveAfter)
	v.budget(runBudgetPath, s.Budget)
	v.perAgent(defaultsPath, s)
}

// maxLimit is the greatest limit, for those that have no other: beyond it a JSON number is no
// longer exact.
const maxLimit = min(1<<53-1, math.MaxInt)

// perAgent checks what an agent may set of its own.
func (v *validator) perAgent(path string, s *Subagents) {
	if s.Model != "" && !wellFormedModel(strings.TrimSpace(s.Model)) {
		v.add(path+".model", s.Model, wantModel)
	}
	if strings.TrimSpace(s.Thinking) != "" {
		if _, ok := ParseThinking(s.Thinking); !ok {
			v.add(path+".thinking", s.Thinking, "one of "+strings.Join(thinkingLevels[:], ", "))
		}
	}
	v.enum(path+".announce", int(s.Announce), announceStepNames[:])
	for i, entry := range s.AllowAgents {
		if id := canonicalID(entry); id != "" && id != "*" && !validID(id) {
			v.add(fmt.Sprintf("%s%s[%d]", path, allowAgentsName, i), entry, "an agent id, or *")
		}
	}
}

const wantModel = "a model such as provider/name, at most 256 bytes, without space"

func (v *validator) agents() {
	seen := make(map[string]int, len(v.rules.Agents))
	for i := range v.rules.Agents {
		a := &v.rules.Agents[i]
		id := canonicalID(a.ID)
		if !validID(a.ID) {
			v.add(fmt.Sprintf("%s[%d].id", listPath, i), a.ID, wantID)
		} else if first, ok := seen[id]; ok {
			v.add(fmt.Sprintf("%s[%d].id", listPath, i), a.ID, fmt.Sprintf("an id that %s[%d] does not have", listPath, first))
		} else {
			seen[id] = i
		}
		v.agent(a, agentPath(id))
	}
}

func (v *validator) agent(a *Agent, path string) {
	if a.Model != "" && !wellFormedModel(strings.TrimSpace(a.Model)) {
		v.add(path+".model", a.Model, wantModel)
	}
	v.toolPolicy(path+".tools", &a.Tools)
	if d := a.Tools.Delegable; d != nil {
		v.toolRules(path+".tools.delegable", *d)
		v.noAlsoAllow(path+".tools.delegable", *d)
	}
	v.toolRules(path+"."+sandboxToolsPath, a.SandboxTools)
	v.noAlsoAllow(path+"."+sandboxToolsPath, a.SandboxTools)
	v.enum(path+".sandbox.mode", int(a.Sandbox), sandboxModeNames[:])

	path += ".subagents"
	s := &a.Subagents
	v.perAgent(path, s)
	forAll := func(name string, set bool, value any) {
		if set {
			v.add(path+"."+name, fmt.Sprint(value), "nothing here: it is set at "+defaultsPath)
		}
	}
	forAll("maxSpawnDepth", s.MaxSpawnDepth != 0, s.MaxSpawnDepth)
	forAll("maxChildrenPerAgent", s.MaxChildren != 0, s.MaxChildren)
	forAll("maxConcurrent", s.MaxConcurrent != 0, s.MaxConcurrent)
	forAll("maxSpawnsPerRun", s.MaxSpawns != 0, s.MaxSpawns)
	forAll("maxRunsPerTree", s.MaxTreeRuns != 0, s.MaxTreeRuns)
	forAll("maxRunsPerRequest", s.MaxRunsPerRequest != 0, s.MaxRunsPerRequest)
	forAll("maxBlocked", s.MaxBlocked != 0, s.MaxBlocked)
	forAll("runTimeoutSeconds", s.Timeout != 0, s.Timeout)
	forAll("archiveAfterMinutes", s.ArchiveAfter != 0, s.ArchiveAfter)
	forAll("budget", s.Budget != Budget{}, s.Budget)
}

// A validate is what is wrong with one field of a budget.
type fault struct{ name, value, want string }

func (b Budget) faults() []fault {
	var faults []fault
	if b.Tokens < 0 {
		faults = append(faults, fault{"tokens", strconv.FormatInt(b.Tokens, 10), "0 or more"})
	}
	if !(b.Cost >= 0) || math.IsInf(b.Cost, 1) {
		faults = append(faults, fault{"cost", strconv.FormatFloat(b.Cost, 'g', -1, 64), "0 or more, and finite"})
	}
	if b.Turns < 0 {
		faults = append(faults, fault{"turns", strconv.Itoa(b.Turns), "0 or more"})
	}
	return faults
}

func (v *validator) budget(path string, b Budget) {
	for _, f := range b.faults() {
		v.add(path+"."+f.name, f.value, f.want)
	}
}

func (v *validator) groups() {
	for _, name := range slices.Sorted(maps.Keys(v.rules.Groups)) {
		path := "tools.groups[" + name + "]"
		key := canonicalTool(name)
		switch {
		case !isGroup(key) || key == groupPrefix || strings.ContainsAny(key, "*"):
			v.add(path, name, `a name that starts with "group:"`)
		case builtinGroup(key) != nil:
			v.add(path, name, "a name that is not built in")
		}
		for i, member := range v.rules.Groups[name] {
			if canonicalTool(member) == "" || isGroup(canonicalTool(member)) {
				v.add(fmt.Sprintf("%s[%d]", path, i), member, "the name or glob of a tool")
			}
		}
	}
}

// toolPolicy checks a level of the configuration, apart from its Delegable.
func (v *validator) toolPolicy(path string, t *ToolPolicy) {
	v.profile(path, t.Profile)
	v.toolRules(path, ToolRules{Allow: t.Allow, AlsoAllow: t.AlsoAllow, Deny: t.Deny})
	seen := make(map[string]string, len(t.ByProvider))
	for _, key := range slices.Sorted(maps.Keys(t.ByProvider)) {
		entry, at := t.ByProvider[key], path+".byProvider["+key+"]"
		id := canonicalID(key)
		if other, ok := seen[id]; ok {
			v.add(at, key, fmt.Sprintf("a provider or model other than %q", other))
		} else if !wellFormedModel(id) {
			v.add(at, key, "a provider, or a model such as provider/name")
		}
		seen[id] = key
		v.profile(at, entry.Profile)
		v.toolRules(at, ToolRules{Allow: entry.Allow, AlsoAllow: entry.AlsoAllow, Deny: entry.Deny})
		if len(entry.ByProvider) > 0 || entry.Delegable != nil {
			v.add(at, "byProvider or delegable", "neither in an entry of byProvider")
		}
	}
}

func (v *validator) profile(path, name string) {
	if name != "" && !slices.Contains(profileNames, canonicalID(name)) {
		v.add(path+".profile", name, "one of "+strings.Join(profileNames, ", "))
	}
}

func (v *validator) toolRules(path string, t ToolRules) {
	v.entries(path+".allow", t.Allow)
	v.entries(path+".alsoAllow", t.AlsoAllow)
	v.entries(path+".deny", t.Deny)
}

func (v *validator) noAlsoAllow(path string, t ToolRules) {
	if len(t.AlsoAllow) > 0 {
		v.add(path+".alsoAllow", strings.Join(t.AlsoAllow, ", "), "nothing here: there is no profile to add to")
	}
}

// entries refuses what could never match: a blank entry and an unknown group, which in a deny
// list would deny nothing.
func (v *validator) entries(path string, list []string) {
	for i, entry := range list {
		switch name := canonicalTool(entry); {
		case name == "":
			v.add(fmt.Sprintf("%s[%d]", path, i), entry, "the name, glob or group of a tool")
		case isGroup(name) && name != groupPlugins && v.rules.group(name) == nil:
			v.add(fmt.Sprintf("%s[%d]", path, i), entry, "a group that is built in or in tools.groups")
		}
	}
}

func (v *validator) chats() {
	for i := range v.rules.Chats {
		c := &v.rules.Chats[i]
		path := c.path()
		if strings.TrimSpace(c.Channel) == "" {
			v.add(path+".channel", c.Channel, "a channel")
		}
		if c.Peer == "" {
			v.add(path+".peer", c.Peer, "a peer, or * for every one")
		}
		v.toolRules(path+".tools", c.Tools)
		v.noAlsoAllow(path+".tools", c.Tools)
	}
}
