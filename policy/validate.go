package policy

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// A FieldError is one value of [Rules] that cannot be.
type FieldError struct {
	Field string // "Rules.Subagents.MaxSpawnDepth"
	Path  string // "agents.defaults.subagents.maxSpawnDepth", its place in the configuration
	Value string // "7"
	Want  string // "1 to 5"
}

// Error returns the mistake as one line.
func (e *FieldError) Error() string {
	return fmt.Sprintf("policy: %s is %s, want %s", place{e.Field, e.Path}, text.Quote(e.Value),
		e.Want)
}

// FieldErrors are all the mistakes of some [Rules], in the order of their fields.
type FieldErrors []*FieldError

// Error returns one line for each mistake, of the first 20.
func (e FieldErrors) Error() string { return text.List(e, "\n", (*FieldError).Error) }

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
	v.budget(treeBudgetPlace, r.Budget)
	v.budget(requestBudgetPlace, r.RequestBudget)
	if n := r.MaxSessions; n != Off && (n < 0 || n > maxLimit) {
		want := "1 or more, or policy.Off"
		if n > 0 {
			want = fmt.Sprintf("1 to %d, or policy.Off", maxLimit)
		}
		v.add(maxSessionsPlace, strconv.Itoa(n), want)
	}
	v.attachments(r.Attachments)
	v.groups()
	v.toolPolicy(toolsPlace, &r.Tools)
	if r.Tools.Delegable != nil {
		v.add(toolsPlace.dot("Delegable", "delegable"), "set", "nothing here: it is set of an agent")
	}
	v.toolRules(subagentToolsPlace, r.SubagentTools)
	if len(r.SubagentTools.Allow) > 0 && len(r.SubagentTools.AlsoAllow) > 0 {
		v.add(subagentToolsPlace.dot("AlsoAllow", "alsoAllow"), strings.Join(r.SubagentTools.AlsoAllow, ", "), "nothing beside allow, which lifts default denies as well")
	}
	v.entries(defaultDenyPlace, r.DefaultDeny)
	v.chats()
	v.senders()
	v.toolRules(sandboxToolsPlace, r.Sandbox.Tools)
	v.noAlsoAllow(sandboxToolsPlace, r.Sandbox.Tools)
	v.enum(sandboxModePlace, int(r.Sandbox.Mode), sandboxModeNames[:])
	v.enum(visibilityPlace, int(r.Visibility), visibilityNames[:])
	for i, entry := range r.AgentToAgent.Allow {
		if strings.TrimSpace(entry) == "" {
			v.add(agentToAgentPlace.dot("Allow", "allow").item(i), entry, "a glob of agent ids")
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

func (v *validator) add(at place, value, want string) {
	v.errs = append(v.errs, &FieldError{
		Field: at.field, Path: at.path, Value: value, Want: want,
	})
}

// within refuses a limit that is not from 1 to most; zero is the default.
func (v *validator) within(at place, value, most int) {
	if value >= 0 && value <= most {
		return
	}
	want := fmt.Sprintf("1 to %d", most)
	if most == maxLimit && value < 0 {
		want = "1 or more"
	}
	v.add(at, strconv.Itoa(value), want)
}

// duration refuses a negative duration that is not Off.
func (v *validator) duration(at place, d time.Duration) {
	if d < 0 && d != Off {
		v.add(at, d.String(), "0s or more, or policy.Off")
	}
}

func (v *validator) enum(at place, value int, words []string) {
	if value >= len(words) {
		v.add(at, strconv.Itoa(value), strings.Join(words, ", "))
	}
}

func (v *validator) subagents() {
	s := &v.rules.Subagents
	v.within(maxDepthPlace, s.MaxSpawnDepth, MaxSpawnDepth)
	v.within(maxChildrenPlace, s.MaxChildren, MaxChildren)
	v.within(maxConcurrentPlace, s.MaxConcurrent, maxLimit)
	v.within(maxSpawnsPlace, s.MaxSpawns, maxLimit)
	v.within(maxTreeRunsPlace, s.MaxTreeRuns, maxLimit)
	if s.MaxRunsPerRequest != Off && s.MaxRunsPerRequest < 0 {
		v.add(maxRequestPlace, strconv.Itoa(s.MaxRunsPerRequest), "1 or more, or policy.Off")
	}
	v.within(maxBlockedPlace, s.MaxBlocked, maxLimit)
	v.duration(timeoutPlace, s.Timeout)
	if s.MaxTimeout < 0 {
		v.add(maxTimeoutPlace, s.MaxTimeout.String(), "0s or more; 0s: any")
	}
	v.duration(archivePlace, s.ArchiveAfter)
	if d := v.rules.KeepArchives; d < 0 {
		v.add(keepArchivesPlace, d.String(), "0s or more; 0s: for ever")
	}
	v.budget(runBudgetPlace, s.Budget)
	v.perAgent(defaultsPlace, s)
}

// maxLimit is the greatest limit, for those that have no other: beyond it a JSON number is no
// longer exact.
const maxLimit = min(1<<53-1, math.MaxInt)

// perAgent checks what an agent may set of its own.
func (v *validator) perAgent(at place, s *Subagents) {
	if s.Model != "" && !IsModelName(strings.TrimSpace(s.Model)) {
		v.add(at.dot("Model", "model"), s.Model, wantModel)
	}
	if strings.TrimSpace(s.Thinking) != "" {
		if _, ok := ParseThinking(s.Thinking); !ok {
			v.add(at.dot("Thinking", "thinking"), s.Thinking, "one of "+strings.Join(thinkingLevels[:], ", "))
		}
	}
	v.enum(at.dot("Announce", "announce"), int(s.Announce), announceStepNames[:])
	for i, entry := range s.AllowAgents {
		at := at.dot("AllowAgents", "allowAgents").item(i)
		switch id := canonicalID(entry); {
		case id == "" || id == "*":
		case !validID(id):
			v.add(at, entry, "an agent id, or *")
		case id != v.rules.DefaultAgent() && v.rules.agent(id) == nil:
			v.add(at, entry, "the id of an agent in "+listPlace.String())
		}
	}
}

const wantModel = "a model such as provider/name, at most 256 bytes, without space"

func (v *validator) agents() {
	seen := make(map[string]int, len(v.rules.Agents))
	for i := range v.rules.Agents {
		a := &v.rules.Agents[i]
		id := canonicalID(a.ID)
		if a.Name != "" && !text.IsLine(a.Name, maxAgentName) {
			v.add(listPlace.item(i).dot("Name", "name"), a.Name, wantAgentName)
		}
		if !validID(a.ID) {
			v.add(listPlace.item(i).dot("ID", "id"), a.ID, wantID)
		} else if first, ok := seen[id]; ok {
			v.add(listPlace.item(i).dot("ID", "id"), a.ID,
				fmt.Sprintf("an id that %s does not have", listPlace.item(first)))
		} else {
			seen[id] = i
		}
		v.agent(a, place{listPlace.item(i).field, listPlace.path + "[" + id + "]"})
	}
}

func (v *validator) agent(a *Agent, at place) {
	if a.Model != "" && !IsModelName(strings.TrimSpace(a.Model)) {
		v.add(at.dot("Model", "model"), a.Model, wantModel)
	}
	v.toolPolicy(at.dot("Tools", "tools"), &a.Tools)
	if d := a.Tools.Delegable; d != nil {
		v.toolRules(at.dot("Tools.Delegable", "tools.delegable"), *d)
		v.noAlsoAllow(at.dot("Tools.Delegable", "tools.delegable"), *d)
	}
	v.toolRules(at.dot("SandboxTools", sandboxToolsPlace.path), a.SandboxTools)
	v.noAlsoAllow(at.dot("SandboxTools", sandboxToolsPlace.path), a.SandboxTools)
	v.enum(at.dot("Sandbox", "sandbox.mode"), int(a.Sandbox), sandboxModeNames[:])

	at = agentSubagents(at)
	s := &a.Subagents
	v.perAgent(at, s)
	forAll := func(of place, set bool, value any) {
		if set {
			field := strings.TrimPrefix(of.field, defaultsPlace.field+".")
			name := strings.TrimPrefix(of.path, defaultsPlace.path+".")
			v.add(at.dot(field, name), fmt.Sprint(value), "nothing here: it is set at "+of.String())
		}
	}
	forAll(maxDepthPlace, s.MaxSpawnDepth != 0, s.MaxSpawnDepth)
	forAll(maxChildrenPlace, s.MaxChildren != 0, s.MaxChildren)
	forAll(maxConcurrentPlace, s.MaxConcurrent != 0, s.MaxConcurrent)
	forAll(maxSpawnsPlace, s.MaxSpawns != 0, s.MaxSpawns)
	forAll(maxTreeRunsPlace, s.MaxTreeRuns != 0, s.MaxTreeRuns)
	forAll(maxTimeoutPlace, s.MaxTimeout != 0, s.MaxTimeout)
	forAll(maxRequestPlace, s.MaxRunsPerRequest != 0, s.MaxRunsPerRequest)
	forAll(maxBlockedPlace, s.MaxBlocked != 0, s.MaxBlocked)
	forAll(timeoutPlace, s.Timeout != 0, s.Timeout)
	forAll(archivePlace, s.ArchiveAfter != 0, s.ArchiveAfter)
	forAll(runBudgetPlace, s.Budget != Budget{}, s.Budget)
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

func (v *validator) budget(at place, b Budget) {
	for _, f := range b.faults() {
		v.add(at.dot(title(f.name), f.name), f.value, f.want)
	}
}

func (v *validator) groups() {
	for _, name := range slices.Sorted(maps.Keys(v.rules.Groups)) {
		at := groupsPlace.entry(name)
		key := canonicalTool(name)
		switch {
		case !isGroup(key) || key == groupPrefix || strings.ContainsAny(key, "*"):
			v.add(at, name, `a name that starts with "group:"`)
		case builtinGroup(key) != nil:
			v.add(at, name, "a name that is not built in")
		}
		for i, member := range v.rules.Groups[name] {
			if canonicalTool(member) == "" || isGroup(canonicalTool(member)) {
				v.add(at.item(i), member, "the name or glob of a tool")
			}
		}
	}
}

// toolPolicy checks a level of the configuration, apart from its Delegable.
func (v *validator) toolPolicy(at place, t *ToolPolicy) {
	v.profile(at, t.Profile)
	v.toolRules(at, ToolRules{Allow: t.Allow, AlsoAllow: t.AlsoAllow, Deny: t.Deny})
	seen := make(map[string]string, len(t.ByProvider))
	for _, key := range slices.Sorted(maps.Keys(t.ByProvider)) {
		entry, at := t.ByProvider[key], at.dot("ByProvider", "byProvider").entry(key)
		id := canonicalID(key)
		if other, ok := seen[id]; ok {
			v.add(at, key, fmt.Sprintf("a provider or model other than %q", other))
		} else if !IsModelName(id) {
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

func (v *validator) profile(at place, name string) {
	if name != "" && !slices.Contains(profileNames, canonicalID(name)) {
		v.add(at.dot("Profile", "profile"), name, "one of "+strings.Join(profileNames, ", "))
	}
}

func (v *validator) toolRules(at place, t ToolRules) {
	v.entries(at.dot("Allow", "allow"), t.Allow)
	v.entries(at.dot("AlsoAllow", "alsoAllow"), t.AlsoAllow)
	v.entries(at.dot("Deny", "deny"), t.Deny)
}

func (v *validator) noAlsoAllow(at place, t ToolRules) {
	if len(t.AlsoAllow) > 0 {
		v.add(at.dot("AlsoAllow", "alsoAllow"), strings.Join(t.AlsoAllow, ", "), "nothing here: there is no profile to add to")
	}
}

// entries refuses what could never match: a blank entry and an unknown group, which in a deny
// list would deny nothing.
func (v *validator) entries(at place, list []string) {
	for i, entry := range list {
		switch name := canonicalTool(entry); {
		case name == "":
			v.add(at.item(i), entry, "the name, glob or group of a tool")
		case isGroup(name) && name != groupPlugins && v.rules.group(name) == nil:
			v.add(at.item(i), entry, "a group that is built in or in tools.groups")
		}
	}
}

func (v *validator) chats() {
	for i := range v.rules.Chats {
		c := &v.rules.Chats[i]
		at := v.rules.chatPlace(c)
		v.chat(at, c)
		v.toolRules(at.dot("Tools", "tools"), c.Tools)
		v.noAlsoAllow(at.dot("Tools", "tools"), c.Tools)
	}
}

// chat refuses a conversation that no session can be, so that its rules would hold for none. The
// constructors of keys say what can be.
func (v *validator) chat(at place, c *Chat) {
	channel, peer := canonicalID(c.Channel), c.Peer
	if peer == "" {
		v.add(at.dot("Peer", "peer"), c.Peer, wantPeer)
		peer = "*"
	}
	if why := notInKey("x", peer); why != "" {
		v.add(at.dot("Peer", "peer"), c.Peer, wantPeer+"; no session has this one: "+why)
		peer = "*"
	}
	if why := notInKey(channel, peer); channel == "" {
		v.add(at.dot("Channel", "channel"), c.Channel, wantChannel)
	} else if why != "" {
		v.add(at.dot("Channel", "channel"), c.Channel, wantChannel+"; no session has this one: "+why)
	}
}

const (
	wantPeer    = "a peer as the keys of its sessions have it, or * for every one"
	wantChannel = `one channel, as "telegram"; what holds for every channel stands in Rules.Tools (tools)`
)

// notInKey says why no key of a session has a channel and a peer; "": one can have them.
func notInKey(channel, peer string) string {
	_, err := session.GroupKey("x", channel, peer) // the shortest key that has both
	if err == nil {
		return ""
	}
	if bad, ok := errors.AsType[*session.KeyError](err); ok {
		return bad.Reason
	}
	return err.Error()
}
