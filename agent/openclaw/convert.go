package openclaw

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A converter makes a Result of a file.
type converter struct {
	*walker
	root  *value
	o     Options
	paths places
	file  document
	ids   []string // of agents.list, canonical; empty for one that is passed over
	found finder
	res   *Result

	aliases map[string]string // of models, in lower case, to their full names
	aliasAt map[string]string // where they are set
	priceAt map[string]string // where the price of a model is set, by its name
}

// change adds something that Apply does, in the order of the calls.
func (c *converter) change(f func(*agent.Config)) { c.res.changes = append(c.res.changes, f) }

// doubt adds a doubt about the value of a path.
func (c *converter) doubt(path, format string, args ...any) {
	v := c.at(path)
	c.note(&c.doubts, v.line, v.column, path, format, args...)
}

// wrong adds a mistake in the value of a path, unless that has one, or a part of it does: what
// could not be read is not there for the conversion, which would say so.
func (c *converter) wrong(path, format string, args ...any) {
	if !c.isWrong(path) {
		c.bad(c.at(path), path, format, args...)
	}
}

// isWrong reports whether the value of a path has a mistake, or a part of it does.
func (c *converter) isWrong(path string) bool {
	return c.wrongAt[path]
}

// document reads the file and collects what Apply does. What is wrong with one part of the file
// does not keep the mistakes of the others back.
func (c *converter) document(root *value) {
	c.read(root, reflect.ValueOf(&c.file).Elem(), "", "")
	c.agentIDs()
	c.subagents()
	c.defaults()
	c.agents()
	c.tools()
	c.threads()
	c.models()
	c.skills()
	if c.knowsAgents() {
		c.workspaces()
	}
	c.credentials()
	c.res.Apply(&c.res.Config)
	c.validate()
}

// ofAgents are the paths of what decides which agents there are, and where their directories are.
var ofAgents = regexp.MustCompile(
	`^(agents(\.defaults(\.workspace)?|\.list(\[\d+\](\.(id|default|workspace))?)?)?)?$`)

// knowsAgents reports whether the file says without a mistake which agents there are, and where. A
// directory that it does not mean is not looked at.
func (c *converter) knowsAgents() bool {
	return !slices.ContainsFunc(c.errs, func(e *FieldError) bool {
		return ofAgents.MatchString(e.Path)
	})
}

// validate adds what a Runtime refuses in what the file says, at its place in the file. What could
// not be read is blank to the rules, which is not told again; nor is a group of tools that is not
// known where groups have mistakes.
func (c *converter) validate() {
	type at struct{ line, column int }
	known, groups := make(map[at]bool, len(c.errs)), c.isWrong("tools.groups")
	for _, e := range c.errs {
		known[at{e.Line, e.Column}] = true
	}
	var all policy.FieldErrors
	errors.As(c.res.Config.Rules.Validate(), &all)
	ofRules := make(map[string]bool, len(all))
	for _, e := range all {
		v := c.at(e.Path)
		ofRules[e.Field] = true
		if !known[at{v.line, v.column}] && (!groups || !strings.HasPrefix(e.Value, "group:")) {
			c.bad(v, e.Path, "it is %s, want %s", c.quote(e.Value), e.Want)
		}
	}
	c.ruleDoubts()
	var others agent.ConfigErrors
	errors.As(c.runnable().Validate(), &others)
	for _, e := range others {
		path, found := c.pathOf(e.Path)
		switch v := c.at(path); {
		case ofRules[e.Path], known[at{v.line, v.column}]:
		case found:
			c.wrong(path, "%s", e.Message)
		case len(c.errs) == 0: // what was read without a mistake says so together
			c.bad(c.root, "", "Config.%s: %s", e.Path, e.Message)
		}
	}
}

// ruleDoubts adds what is doubtful in the rules, apart from the lists of tools: which tools there
// are is the program's.
func (c *converter) ruleDoubts() {
	for _, d := range c.res.Config.Rules.Doubts(nil) {
		if strings.HasPrefix(d.Field, "Rules.AgentToAgent.") || strings.HasSuffix(d.Field, ".Peer") {
			v := c.at(d.Path)
			c.note(&c.doubts, v.line, v.column, d.Path, "%s", d.Text)
		}
	}
}

// runnable returns the Config of the file with what no file says and a Runtime asks for.
func (c *converter) runnable() agent.Config {
	cfg := c.res.Config
	cfg.Runner = agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
		return agent.Result{}, nil
	})
	if cfg.Rules.Owners == nil && cfg.Rules.OwnerOnly != nil {
		cfg.Owner = func(context.Context, session.Key, session.Sender) (bool, error) {
			return false, nil // owners has a doubt that it is needed
		}
	}
	return cfg
}

// pathOf returns the path in the file of what stands at a Go path of the Config. What is a part of
// the Rules and has a place of its own in a file is not asked for.
func (c *converter) pathOf(goPath string) (path string, found bool) {
	var names []string
	for _, m := range steps.FindAllStringSubmatch(goPath, -1) {
		name := cmp.Or(m[1], m[0])
		if s, err := strconv.Unquote(name); err == nil {
			name = s
		}
		names = append(names, name)
	}
	under := func(words ...string) (rest []string, ok bool) {
		ok = len(names) > len(words) && slices.Equal(names[:len(words)], words)
		return names[min(len(names), len(words)):], ok
	}
	if rest, ok := under("Threads", "Channels"); ok {
		path = dot("channels", rest[0])
		if len(rest) > 2 && rest[1] == "Accounts" {
			path = dot(path+".accounts", rest[2])
		}
		return path, true
	}
	if rest, ok := under("Prompts", "Input", "Aliases"); ok {
		path, found = c.aliasAt[rest[0]]
		return path, found
	}
	if _, ok := under("Prompts", "Input", "Env"); ok {
		return "agents.defaults.userTimezone", true
	}
	if rest, ok := under("Models", "Prices"); ok {
		path, found = c.priceAt[rest[0]]
		return path, found
	}
	if rest, ok := under("Rules", "Tools", "ByProvider"); ok {
		return dot("tools.byProvider", rest[0]), true
	}
	if rest, ok := under("Rules", "Agents"); ok && slices.Contains(rest, "ByProvider") {
		if i, err := strconv.Atoi(rest[0]); err == nil && i < len(c.res.Config.Rules.Agents) {
			id := c.res.Config.Rules.Agents[i].ID
			return dot(item("agents.list", c.found.ids[id])+".tools.byProvider", rest[len(rest)-1]), true
		}
	}
	return "", false
}

// steps are the parts of a path: names, and what stands in brackets.
var steps = regexp.MustCompile(`\[("(?:[^"\\]|\\.)*"|[^\]]*)\]|[^.\[\]]+`)

// at returns the value of a path, or the nearest one around it that is there.
func (c *converter) at(path string) *value {
	v, _ := c.found.find(path)
	return v
}

// duration returns so many units, at most the longest Duration.
func duration(n int64, unit time.Duration) time.Duration {
	if n > int64(math.MaxInt64/unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}

// orOff returns a duration, for which 0 means that there is none.
func orOff(n int64, unit time.Duration) time.Duration {
	if n == 0 {
		return policy.Off
	}
	return duration(n, unit)
}

// atMost returns n as an int.
func atMost(n int64) int { return int(min(n, math.MaxInt)) }

// isZero reports whether a part of the file is not there.
func isZero(v any) bool { return reflect.ValueOf(v).IsZero() }

// subagents converts agents.defaults.subagents.
func (c *converter) subagents() {
	const path = "agents.defaults.subagents"
	s := &c.file.Agents.Defaults.Subagents
	c.ofAgent(path, &s.ofAgent, func(f func(*policy.Subagents)) {
		c.change(func(cfg *agent.Config) { f(&cfg.Rules.Subagents) })
	})
	set := func(n *int64, f func(*policy.Subagents, int64)) {
		if n != nil {
			c.change(func(cfg *agent.Config) { f(&cfg.Rules.Subagents, *n) })
		}
	}
	set(s.MaxSpawnDepth, func(r *policy.Subagents, n int64) { r.MaxSpawnDepth = int(n) })
	set(s.MaxChildren, func(r *policy.Subagents, n int64) { r.MaxChildren = int(n) })
	set(s.MaxConcurrent, func(r *policy.Subagents, n int64) { r.MaxConcurrent = atMost(n) })
	set(s.MaxSpawns, func(r *policy.Subagents, n int64) { r.MaxSpawns = atMost(n) })
	set(s.MaxTreeRuns, func(r *policy.Subagents, n int64) { r.MaxTreeRuns = atMost(n) })
	set(s.MaxBlocked, func(r *policy.Subagents, n int64) { r.MaxBlocked = atMost(n) })
	set(s.MaxRunsPerRequest, func(r *policy.Subagents, n int64) {
		if r.MaxRunsPerRequest = atMost(n); n == 0 {
			r.MaxRunsPerRequest = policy.Off
		}
	})
	set(s.ArchiveAfterMinutes, func(r *policy.Subagents, n int64) {
		r.ArchiveAfter = orOff(n, time.Minute)
	})
	set(s.RunTimeoutSeconds, func(r *policy.Subagents, n int64) {
		r.Timeout = orOff(n, time.Second)
	})
	set(s.MaxRunTimeout, func(r *policy.Subagents, n int64) {
		r.MaxTimeout = duration(n, time.Second)
	})
	if n := s.AnnounceTimeoutMs; n != nil {
		c.change(func(cfg *agent.Config) { cfg.DeliverTimeout = duration(*n, time.Millisecond) })
	}
	if b := s.Budget; b != nil {
		c.change(func(cfg *agent.Config) { cfg.Rules.Subagents.Budget = b.policy() })
	}
}

func (b *budget) policy() (p policy.Budget) {
	if b.Tokens != nil {
		p.Tokens = *b.Tokens
	}
	if b.Cost != nil {
		p.Cost = *b.Cost
	}
	if b.Turns != nil {
		p.Turns = atMost(*b.Turns)
	}
	return p
}

// ofAgent converts what an agent and the defaults may say of sub-agents, each through set.
func (c *converter) ofAgent(path string, s *ofAgent, set func(func(*policy.Subagents))) {
	if name := c.model(path+".model", s.Model); name != "" {
		set(func(r *policy.Subagents) { r.Model = name })
	}
	if level := c.thinking(path+".thinking", s.Thinking); level != "" {
		set(func(r *policy.Subagents) { r.Thinking = level })
	}
	if s.Announce != nil {
		var step policy.AnnounceStep
		_ = step.UnmarshalText([]byte(*s.Announce)) // the walker knows the words
		set(func(r *policy.Subagents) { r.Announce = step })
	}
	if s.RequireAgentID != nil {
		set(func(r *policy.Subagents) { r.RequireAgentID = s.RequireAgentID })
	}
	if s.AllowAgents == nil {
		return
	}
	allowed := make([]string, 0, len(s.AllowAgents))
	for i, id := range s.AllowAgents {
		id = strings.ToLower(strings.TrimSpace(id))
		switch {
		case id == "":
		case id != "*" && !c.configured(id):
			c.doubt(item(path+".allowAgents", i),
				"it is passed over: agents.list has no %s, and only an agent there can be spawned",
				c.quote(id))
		default:
			allowed = append(allowed, id)
		}
	}
	set(func(r *policy.Subagents) { r.AllowAgents = allowed })
}

// configured reports whether there is an agent of an id.
func (c *converter) configured(id string) bool {
	if len(c.file.Agents.List) == 0 {
		return id == session.DefaultAgent
	}
	return c.listed(id)
}

// model returns the name that is said, empty if there is none.
func (c *converter) model(path string, m *modelRef) string {
	if m == nil || m.Primary == nil {
		return ""
	}
	name := strings.TrimSpace(*m.Primary)
	if name != "" && !policy.IsModelName(name) {
		c.wrong(path, "it is %s, want a model such as provider/name", c.quote(name))
	}
	return name
}

// thinking returns a level, empty if there is none.
func (c *converter) thinking(path string, level *string) string {
	if level == nil || strings.TrimSpace(*level) == "" {
		return ""
	}
	canonical, ok := policy.ParseThinking(*level)
	if !ok {
		c.wrong(path, "it is %s, want one of %s", c.quote(*level),
			strings.Join(policy.ThinkingLevels(), ", "))
	}
	return canonical
}

// defaults converts agents.defaults, but for what other functions convert.
func (c *converter) defaults() {
	const path = "agents.defaults"
	d := &c.file.Agents.Defaults
	if level := c.thinking(path+".thinkingDefault", d.Thinking); level != "" {
		c.change(func(cfg *agent.Config) { cfg.Models.Thinking = level })
	}
	if n := d.BootstrapMax; n != nil {
		c.change(func(cfg *agent.Config) { cfg.Prompts.Input.Limits.File = atMost(*n) })
	}
	if n := d.BootstrapAll; n != nil {
		c.change(func(cfg *agent.Config) { cfg.Prompts.Input.Limits.Total = atMost(*n) })
	}
	if d.Zone != nil {
		zone := strings.TrimSpace(*d.Zone)
		env := agentctx.Env{Zone: zone}
		if fault := env.ZoneFault(); fault != nil {
			c.doubt(path+".userTimezone", "this machine does not know the zone %s", c.quote(zone))
		}
		c.change(func(cfg *agent.Config) { cfg.Prompts.Input.Env.Zone = zone })
	}
	if d.MaxConcurrent != nil {
		c.change(func(cfg *agent.Config) { cfg.Rules.MaxSessions = atMost(*d.MaxConcurrent) })
	}
	if d.Budget != nil {
		c.change(func(cfg *agent.Config) { cfg.Rules.Budget = d.Budget.policy() })
	}
	if d.RequestBudget != nil {
		c.change(func(cfg *agent.Config) { cfg.Rules.RequestBudget = d.RequestBudget.policy() })
	}
	if mode := sandboxOf(&d.Sandbox.sandboxMode); mode != policy.SandboxInherit {
		c.change(func(cfg *agent.Config) { cfg.Rules.Sandbox.Mode = mode })
	}
	if s := d.Sandbox.SessionTools; s != nil {
		c.change(func(cfg *agent.Config) { cfg.Rules.Sandbox.SeeAll = *s == "all" })
	}
	if n := c.file.Session.KeepArchives; n != nil {
		c.change(func(cfg *agent.Config) { cfg.Rules.KeepArchives = duration(*n, time.Minute) })
	}
}

func sandboxOf(s *sandboxMode) (mode policy.SandboxMode) {
	if s.Mode != nil {
		_ = mode.UnmarshalText([]byte(*s.Mode)) // the walker knows the words
	}
	return mode
}

// badID is what cannot stand in the id of an agent.
var badID = regexp.MustCompile(`[^a-z0-9_-]+`)

// canonical returns the id of an agent as OpenClaw makes it of a text.
func canonical(id string) string {
	id = strings.Trim(badID.ReplaceAllString(strings.ToLower(strings.TrimSpace(id)), "-"), "-")
	id = strings.TrimLeft(id, "_-")
	return cmp.Or(id[:min(len(id), 64)], session.DefaultAgent)
}

// agentIDs finds the ids of agents.list.
func (c *converter) agentIDs() {
	for i, e := range c.file.Agents.List {
		if e.ID == nil { // a mistake that the walker has found
			c.ids = append(c.ids, "")
			continue
		}
		id, path := canonical(*e.ID), item("agents.list", i)+".id"
		if c.listed(id) {
			c.doubt(path, "the agent is passed over, since one before it has the id %s, too", c.quote(id))
			id = ""
		} else if !strings.EqualFold(id, strings.TrimSpace(*e.ID)) {
			c.doubt(path, "it is read as %s, since %s cannot be an id", c.quote(id), c.quote(*e.ID))
		}
		if c.ids = append(c.ids, id); id != "" {
			c.found.add(id, i)
		}
	}
}

// listed reports whether agents.list has an id.
func (c *converter) listed(id string) bool {
	_, ok := c.found.ids[id]
	return ok
}

// agents converts agents.list.
func (c *converter) agents() {
	list := c.file.Agents.List
	baseline := c.file.Agents.Defaults.Skills
	if len(list) == 0 {
		c.res.Agents = []Agent{{ID: session.DefaultAgent}}
		if baseline != nil {
			only := []policy.Agent{{ID: session.DefaultAgent, Skills: baseline}}
			c.change(func(cfg *agent.Config) { cfg.Rules.Agents = slices.Clone(only) })
		}
		return
	}
	var all []policy.Agent
	first := -1
	for i := range list {
		e, path := &list[i], item("agents.list", i)
		if c.ids[i] == "" {
			continue
		}
		a := policy.Agent{
			ID: c.ids[i], Name: c.name(path+".name", e.Name), Skills: baseline,
			Sandbox: sandboxOf(&e.Sandbox),
			Model:   c.model(path+".model", e.Model),
			Tools:   c.policyOf(path+".tools", &e.Tools),
			SandboxTools: c.sandboxTools(path+".tools.sandbox.tools", &e.Tools.Sandbox.Tools.toolLists,
				c.file.Tools.Sandbox.Tools.Deny),
		}
		if e.Skills != nil {
			a.Skills = e.Skills
		}
		c.ofAgent(path+".subagents", &e.Subagents, func(f func(*policy.Subagents)) { f(&a.Subagents) })
		info := Agent{ID: a.ID}
		if e.Name != nil {
			info.Name = *e.Name
		}
		c.res.Agents, all = append(c.res.Agents, info), append(all, a)
		if e.Default != nil && *e.Default {
			if first >= 0 {
				c.doubt(path+".default", "it has no effect, since agent %s before it is the default",
					c.quote(all[first].ID))
				continue
			}
			first = len(all) - 1
		}
	}
	if first > 0 { // the first of the Rules is the default agent
		all = toFront(all, first)
		c.res.Agents = toFront(c.res.Agents, first)
	}
	c.change(func(cfg *agent.Config) { cfg.Rules.Agents = slices.Clone(all) })
}

// name returns what agents_list calls an agent: of a name that is not one line, or too long, what
// can be seen of its beginning.
func (c *converter) name(path string, name *string) string {
	if name == nil {
		return ""
	}
	can := func(s string) bool {
		r := policy.Rules{Agents: []policy.Agent{{ID: session.DefaultAgent, Name: s}}}
		return r.Validate() == nil
	}
	given, shown := strings.TrimSpace(*name), ""
	for _, r := range strings.Join(strings.Fields(given), " ") {
		more := shown + string(r)
		if can(strings.TrimSpace(more)) && !strings.HasSuffix(more, "  ") {
			shown = more
		} else if r != ' ' && can("x"+string(r)+"x") {
			break // it would be too long
		}
	}
	shown = strings.TrimSpace(shown)
	if shown != given {
		c.doubt(path, "agents_list calls the agent %s, since a name there is one line of at most 64 "+
			"bytes of what can be seen", c.quote(shown))
	}
	return shown
}

// toFront moves an item of a list to its front.
func toFront[T any](list []T, i int) []T {
	return slices.Concat(list[i:i+1], list[:i], list[i+1:])
}

// threads converts the settings of thread bindings.
func (c *converter) threads() {
	if t := &c.file.Session.Threads; !isZero(*t) {
		c.change(func(cfg *agent.Config) { t.merge(&cfg.Threads.Bindings) })
	}
	var set []channelThreads
	folded := make(map[string]string, len(c.file.Channels))
	for _, name := range slices.Sorted(maps.Keys(c.file.Channels)) {
		ch, low := c.file.Channels[name], strings.ToLower(name)
		if other, twice := folded[low]; twice {
			c.doubt(dot("channels", name), "it is the channel of %s, too, since letter case does not "+
				"matter; where both say something, this one counts", shown(dot("channels", other)))
		}
		folded[low] = name
		accounts := maps.Clone(ch.Accounts)
		maps.DeleteFunc(accounts, func(_ string, a account) bool { return isZero(a.Threads) })
		if !isZero(ch.Threads) || len(accounts) > 0 {
			set = append(set, channelThreads{name, &ch.Threads, accounts})
		}
	}
	if len(set) > 0 {
		c.change(func(cfg *agent.Config) { applyChannels(cfg, set) })
	}
	c.chats()
}

// chats converts the tools of groups.
func (c *converter) chats() {
	var chats []policy.Chat
	for _, name := range slices.Sorted(maps.Keys(c.file.Channels)) {
		groups := c.file.Channels[name].Groups
		for _, peer := range slices.Sorted(maps.Keys(groups)) {
			lists, bySender := groups[peer].Tools, groups[peer].BySender
			if isZero(lists) && len(bySender) == 0 {
				continue
			}
			at := dot(dot("channels", name)+".groups", peer)
			c.pluginsOnly(at+".tools", lists.Allow)
			chat := policy.Chat{Channel: name, Peer: peer, Tools: c.plain(at+".tools", &lists, nil)}
			chat.Senders = c.senders(at+".toolsBySender", bySender)
			if _, all := bySender["*"]; len(bySender) > 0 {
				if !all && !isZero(lists) { // those of a sender are in place of these
					chat.Senders = append(chat.Senders, policy.SenderTools{
						Person: policy.Person{ID: "*"}, Tools: chat.Tools,
					})
				}
				chat.Tools = policy.ToolRules{}
			}
			chats = append(chats, chat)
		}
	}
	if len(chats) > 0 {
		c.change(func(cfg *agent.Config) { cfg.Rules.Chats = slices.Clone(chats) })
	}
}

// skills converts what the file says of skills.
func (c *converter) skills() {
	s := &c.file.Skills
	settings := make(map[string]agentctx.SkillConfig, len(s.Entries))
	for name, e := range s.Entries {
		x := agentctx.SkillConfig{Disabled: e.Enabled != nil && !*e.Enabled, Env: e.Env}
		if e.APIKey != nil {
			x.APIKey = *e.APIKey
		}
		settings[name] = x
	}
	root := c.root
	c.change(func(cfg *agent.Config) {
		host := agentctx.ThisHost()
		if cfg.Prompts.SkillHost != nil {
			host = *cfg.Prompts.SkillHost
		}
		before := host.Setting
		host.Setting = func(path string) bool {
			return setting(root, path) || before != nil && before(path)
		}
		if s.AllowBundled != nil {
			host.Bundled = s.AllowBundled
		}
		if len(settings) > 0 {
			host.Config = settings
		}
		cfg.Prompts.SkillHost = &host
	})
	var sources []agentctx.SkillSource
	for i, dir := range s.Load.ExtraDirs {
		path := item("skills.load.extraDirs", i)
		if c.isWrong(path) {
			continue
		}
		dir = c.paths.expand(strings.TrimSpace(dir))
		if files := c.open(dir, path, "it is not there"); files != nil {
			sources = append(sources, agentctx.SkillSource{FS: files, Path: dir})
		}
	}
	if len(sources) > 0 {
		c.change(func(cfg *agent.Config) {
			if len(cfg.Prompts.Skills) == 0 {
				cfg.Prompts.Skills = slices.Clone(sources)
			}
		})
	}
}

// settingsThatAreOn are on where the file does not set them.
var settingsThatAreOn = []string{"browser.enabled", "browser.evaluateEnabled"}

// setting reports whether a setting of the file is on: it is true, a number that is not 0, a text
// that is not blank, or a list or object, an empty one too.
func setting(root *value, path string) bool {
	v := root
	for name := range strings.SplitSeq(path, ".") {
		if v = v.get(name); v == nil {
			return slices.Contains(settingsThatAreOn, path)
		}
	}
	switch v.kind {
	case kindBool:
		return v.on
	case kindNumber:
		return v.num != 0 && !math.IsNaN(v.num)
	case kindString:
		return strings.TrimSpace(v.str) != ""
	case kindList, kindObject:
		return true
	default:
		return false
	}
}
