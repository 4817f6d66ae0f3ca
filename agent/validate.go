package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// A checkup collects what is wrong with a Config, and what is doubtful.
type checkup struct {
	errs   ConfigErrors
	doubts []policy.Doubt
}

// Validate returns every mistake for which [Open] refuses c, as [ConfigErrors], or nil. It starts
// nothing, and does not look into the Store.
func (c Config) Validate() error {
	if errs := c.checkup().errs; len(errs) > 0 {
		return errs
	}
	return nil
}

// bad adds a mistake at a Go path.
func (c *checkup) bad(path, format string, args ...any) {
	c.errs = append(c.errs, &ConfigError{Path: path, Message: fmt.Sprintf(format, args...)})
}

// loop adds the mistakes in the numbers of a Loop.
func (c *checkup) loop(path string, l *Loop) {
	for _, f := range [...]struct {
		name  string
		value int
	}{{"MaxSteps", l.MaxSteps}, {"Parallel", l.Parallel}} {
		if f.value < 0 {
			c.bad(path+"."+f.name, "%d is negative", f.value)
		}
	}
	if l.Retries > maxRetries {
		c.bad(path+".Retries", "%d is more than %d", l.Retries, maxRetries)
	}
}

// doubt adds what can be meant.
func (c *checkup) doubt(path, format string, args ...any) {
	c.doubts = append(c.doubts, policy.Doubt{Field: path, Text: fmt.Sprintf(format, args...)})
}

// parts adds the mistakes of a part of the Config, which is a value of package agentctx.
func (c *checkup) parts(path string, err error) {
	for _, err := range splitErrors(err) {
		f, ok := errors.AsType[*agentctx.FieldError](err)
		if !ok {
			c.bad(path, "%v", err)
			continue
		}
		_, field, _ := strings.Cut(f.Field, ".") // without the name of the type
		c.bad(path+"."+field, "it %s", f.Reason)
	}
}

// rules adds the mistakes of the Rules.
func (c *checkup) rules(r *policy.Rules) {
	for _, err := range splitErrors(r.Validate()) {
		if f, ok := errors.AsType[*policy.FieldError](err); ok {
			c.errs = append(c.errs, &ConfigError{
				Path: f.Field, Setting: f.Path,
				Message: fmt.Sprintf("it is %s, want %s", text.Quote(f.Value), f.Want),
			})
			continue
		}
		c.bad("Rules", "%v", err)
	}
}

// agentPlace returns where the nth agent of the Rules is set: its Go path, and its place in the
// JSON configuration.
func agentPlace(n int, id string) (path, setting string) {
	return fmt.Sprintf("Rules.Agents[%d]", n),
		"agents.list[" + strings.ToLower(strings.TrimSpace(id)) + "]"
}

// unknownModels looks for sessions of which the Rules do not know the model, and so not which of
// their rules for providers hold.
func (c *checkup) unknownModels(cfg *Config) {
	r := &cfg.Rules
	agents := r.Agents
	if len(agents) == 0 {
		agents = []policy.Agent{{ID: session.DefaultAgent}}
	}
	for i := range agents {
		a := &agents[i]
		field, setting := "Rules.Tools.ByProvider", "tools.byProvider"
		if len(r.Tools.ByProvider) == 0 {
			field, setting = agentPlace(i, a.ID)
			field, setting = field+".Tools.ByProvider", setting+".tools.byProvider"
		}
		main, err := session.MainKey(a.ID)
		if err != nil || cfg.model(main) != "" ||
			len(r.Tools.ByProvider) == 0 && len(a.Tools.ByProvider) == 0 {
			continue
		}
		c.doubts = append(c.doubts, policy.Doubt{Field: field, Path: setting, Text: fmt.Sprintf(
			"it holds for no session of agent %q, whose model is not known; set Models.Model or %s",
			strings.ToLower(a.ID), "Rules.Agents[].Model")})
	}
}

// What is not built yet is refused with a sentence, so that it is not asked for in vain.
const noFork = "a top-level session has no requester whose conversation it could begin with; " +
	"Prompts.SubagentSpecs say what sub-agents begin with"

// prompts adds the mistakes of the Prompts and of the workspaces.
func (c *checkup) prompts(cfg *Config) {
	p := &cfg.Prompts
	in := p.Input
	in.Session = session.Must(session.MainKey(session.DefaultAgent)) // the Runtime fills it in
	c.parts("Prompts.Input", in.Validate())
	if fault := in.Env.ZoneFault(); fault != nil {
		c.doubt("Prompts.Input.Env.Zone", "this machine does not know it, so that prompts show the "+
			"date in the zone of Now: %v; a program without a time zone database imports time/tzdata",
			fault)
	}
	if in.Spec.History == agentctx.HistoryFork {
		c.bad("Prompts.Input.Spec.History", "%s", noFork)
	}
	if len(p.Input.Skills) > 0 {
		c.bad("Prompts.Input.Skills", "the Runtime fills it in, from the sources in Prompts.Skills")
	}
	for i, s := range p.Skills {
		if _, err := s.Origin.MarshalText(); err != nil {
			c.bad(fmt.Sprintf("Prompts.Skills[%d].Origin", i), "%v", err)
		}
		path := fmt.Sprintf("Prompts.Skills[%d].FS", i)
		if c.workspace(path, s.FS); s.FS == nil {
			c.doubt(path, "it is nil, so that the source holds no skills")
		}
	}
	c.parts("Prompts.Loader", p.Loader.Validate())
	for _, id := range c.agentIDs(cfg, "Prompts.SubagentSpecs", slices.Collect(
		maps.Keys(p.SubagentSpecs))) {
		c.parts(fmt.Sprintf("Prompts.SubagentSpecs[%q]", id), p.SubagentSpecs[id].Validate())
	}
	c.workspace("Workspace", cfg.Workspace)
	for _, id := range c.agentIDs(cfg, "Prompts.Workspaces", slices.Collect(
		maps.Keys(p.Workspaces))) {
		path := fmt.Sprintf("Prompts.Workspaces[%q]", id)
		if c.workspace(path, p.Workspaces[id]); p.Workspaces[id] == nil {
			c.doubt(path, "it is nil, so that sessions of the agent have no files; "+
				"an agent without an entry has those of Workspace")
		}
	}
}

// runners adds the mistakes of the Runners, and what no Runner would run.
func (c *checkup) runners(cfg *Config) {
	own := c.agentIDs(cfg, "Runners.Agents", slices.Collect(maps.Keys(cfg.Runners.Agents)))
	for _, id := range own {
		c.runner(runnerField(id), cfg.Runners.Agents[id], "it is nil")
	}
	if cfg.Runner != nil || len(own) == 0 {
		c.runner("Runner", cfg.Runner,
			"it is missing; it is the one thing that a Runtime cannot do without")
		return
	}
	c.withoutRunner(cfg)
}

// withoutRunner adds what no Runner would run, if only agents have one.
func (c *checkup) withoutRunner(cfg *Config) {
	if len(cfg.Rules.Agents) == 0 {
		c.bad("Runner", "it is missing, and no agents are configured in Rules.Agents "+
			"(agents.list), so that others than those of Runners.Agents may have sessions")
	}
	for _, a := range cfg.Rules.Agents {
		if _, ok := inAnyCase(cfg.Runners.Agents, strings.TrimSpace(a.ID)); !ok {
			c.bad("Runner", "it is missing, and agent %q has none in Runners.Agents", a.ID)
		}
	}
}

// runner adds the mistakes of one Runner, and what a missing one means.
func (c *checkup) runner(path string, r Runner, missing string) {
	if f, isFunc := r.(RunnerFunc); r == nil || isFunc && f == nil {
		c.bad(path, "%s", missing)
	}
	if l, ok := r.(*Loop); ok && (l == nil || !l.hasModel()) {
		c.bad(path, "the Loop has no Model")
	} else if ok {
		c.loop(path, l)
	}
}

// agentIDs checks the keys of a map by agent ids and returns them sorted. The key "" of
// SubagentSpecs is for agents that have none. Where agents are configured, another id is a mistake.
// Where none is, any id may be that of a session.
func (c *checkup) agentIDs(cfg *Config, path string, ids []string) []string {
	slices.Sort(ids)
	seen := make(map[string]string, len(ids))
	for _, id := range ids {
		at := fmt.Sprintf("%s[%q]", path, id)
		folded := strings.ToLower(id)
		other, twice := seen[folded]
		seen[folded] = id
		_, err := session.MainKey(id)
		switch {
		case id == "" && path == "Prompts.SubagentSpecs":
		case err != nil:
			c.bad(at, "%v", err)
		case twice:
			c.bad(at, "it is the agent of %s[%q], since letter case does not matter", path, other)
		case cfg.Rules.Knows(id):
		case len(cfg.Rules.Agents) > 0:
			c.bad(at, "there is no agent %q in Rules.Agents (agents.list)%s", id,
				nearestAgent(&cfg.Rules, folded))
		default:
			c.doubt(at, "no agents are configured in Rules.Agents (agents.list), so that only "+
				"sessions whose keys name %q use it%s", id, nearestAgent(&cfg.Rules, folded))
		}
	}
	return ids
}

// nearestAgent returns a clause that names the agent that was probably meant.
func nearestAgent(r *policy.Rules, id string) string {
	ids := []string{session.DefaultAgent}
	for _, a := range r.Agents {
		ids = append(ids, strings.ToLower(a.ID))
	}
	return nearest(id, ids)
}

// promptNames looks for names of files and sections that stand for none. A file may come later: its
// name is doubtful if it is near that of a core file.
func (c *checkup) promptNames(cfg *Config) {
	p := &cfg.Prompts
	files := func(field string, names []string) {
		for i, name := range names {
			near := agentctx.NearCoreFile(name)
			if near == "" || mayExist(cfg, name) {
				continue
			}
			c.doubt(fmt.Sprintf("%s[%d]", field, i), "there is no file %s; the nearest is %q",
				text.Quote(name), near)
		}
	}
	files("Prompts.Input.Spec.Files", p.Input.Spec.Files)
	files("Prompts.Input.Markers", p.Input.Markers)
	for _, id := range slices.Sorted(maps.Keys(p.SubagentSpecs)) {
		files(fmt.Sprintf("Prompts.SubagentSpecs[%q].Files", id), p.SubagentSpecs[id].Files)
	}
	known := append(agentctx.SectionIDs(), retrySection, peopleSection, attachmentsSection,
		runtimesID)
	for _, s := range p.Input.Extra {
		known = append(known, s.ID)
	}
	sections := func(field string, ids []string) {
		for i, id := range ids {
			if !slices.Contains(known, id) {
				c.doubt(fmt.Sprintf("%s[%d]", field, i), "there is no section %s%s",
					text.Quote(id), nearest(id, known))
			}
		}
	}
	sections("Prompts.Input.Drop", p.Input.Drop)
	sections("Prompts.Input.Order", p.Input.Order)
}

// nearest returns a clause with the name that was probably meant, or "".
func nearest(name string, known []string) string {
	if near := text.Nearest(name, known); near != "" {
		return fmt.Sprintf("; the nearest is %q", near)
	}
	return ""
}

// mayExist reports whether a workspace has a file, or cannot be asked, or the Loader reads it. A
// pattern may come to match.
func mayExist(cfg *Config, name string) bool {
	if strings.ContainsAny(name, `*?[\`) {
		return true
	}
	for _, extra := range cfg.Prompts.Loader.Extra {
		if ok, err := path.Match(extra, name); ok && err == nil {
			return true
		}
	}
	spaces := append(slices.Collect(maps.Values(cfg.Prompts.Workspaces)), cfg.Workspace)
	return slices.ContainsFunc(spaces, func(fsys fs.FS) bool {
		if fsys == nil {
			return false
		}
		stat, ok := fsys.(fs.StatFS)
		if !ok {
			return true
		}
		_, err := statFile("Workspace", stat, name)
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid)
	})
}

// models looks for names of models that are not in the form that they have, where Models.Valid does
// not say which can be used.
func (c *checkup) models(cfg *Config) {
	c.model(cfg, "Models.Model", "", cfg.Models.Model)
	c.modelsOfRules(cfg)
}

// modelsOfRules is models for the Rules.
func (c *checkup) modelsOfRules(cfg *Config) {
	c.model(cfg,
		"Rules.Subagents.Model", "agents.defaults.subagents.model", cfg.Rules.Subagents.Model)
	for i, a := range cfg.Rules.Agents {
		path, setting := agentPlace(i, a.ID)
		c.model(cfg, path+".Model", setting+".model", a.Model)
		c.model(cfg, path+".Subagents.Model", setting+".subagents.model", a.Subagents.Model)
	}
}

// model is models for one name.
func (c *checkup) model(cfg *Config, path, setting, model string) {
	model = strings.TrimSpace(model)
	_, alias := inAnyCase(cfg.Prompts.Input.Aliases, model)
	if model == "" || alias || strings.Contains(model, "/") || cfg.Models.Valid != nil {
		return
	}
	c.doubts = append(c.doubts, policy.Doubt{Field: path, Path: setting, Text: fmt.Sprintf(
		"it is %s, which is not of the form \"provider/model\"", text.Quote(model))})
}

// workspace looks whether a directory is there. It asks only a file system that has Stat itself,
// as those of directories do: others may be functions that expect a turn.
func (c *checkup) workspace(path string, fsys fs.FS) {
	stat, ok := fsys.(fs.StatFS)
	if !ok {
		return
	}
	info, err := statFile(path, stat, ".")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.bad(path, "the directory is not there: %v", err)
	case err != nil:
		c.doubt(path, "the directory cannot be looked at: %v", err)
	case !info.IsDir():
		c.bad(path, "it is a file, not a directory")
	}
}

// statFile describes a file of a file system of the caller, which may panic or end its goroutine.
func statFile(path string, fsys fs.StatFS, name string) (info fs.FileInfo, err error) {
	err = protect(path, func() (err error) {
		info, err = fsys.Stat(name)
		return err
	})
	if err == nil && info == nil {
		err = fs.ErrInvalid
	}
	return info, err
}

// tools adds the mistakes of the tools.
func (c *checkup) tools(tools []Tool) {
	seen := make(map[string]string, len(tools))
	for i, t := range tools {
		path, folded := fmt.Sprintf("Tools[%d]", i), strings.ToLower(t.Name)
		first, twice := seen[folded]
		switch {
		case !validToolName(t.Name):
			c.bad(path+".Name", "%s: a letter, digit or _, then up to 63 of those and -",
				text.Quote(t.Name))
		case slices.Contains(sessionToolNames, folded):
			c.bad(path+".Name", "%q is a tool of Offshoot", t.Name)
		case twice && first == t.Name:
			c.bad(path+".Name", "%q is there twice", t.Name)
		case twice:
			c.bad(path+".Name", "%q is the tool %q, since letter case does not matter", t.Name,
				first)
		default:
			seen[folded] = t.Name
		}
		if err := t.checkSchema(); err != nil {
			c.bad(path+".Schema", "tool %s: %v", text.Quote(t.Name), err)
		}
		if t.Call == nil {
			c.bad(path+".Call", "it is missing")
		}
		if t.Timeout < 0 {
			c.bad(path+".Timeout", "%v is negative; 0: a call may take as long as the turn", t.Timeout)
		} else if fault := text.UnitFault(t.Timeout); fault != "" {
			c.doubt(path+".Timeout", "%s", fault)
		}
		if _, err := t.Effect.MarshalText(); err != nil {
			c.bad(path+".Effect", "it is %v, want one of %q", t.Effect, effectNames)
		}
		if t.answer != nil {
			c.bad(path+".Call", "tool %s: %v", text.Quote(t.Name), t.answer)
		}
	}
}

// owners refuses what is for owners alone where no one is known to be one: everyone would have it.
func (c *checkup) owners(cfg *Config) {
	if cfg.Owner != nil || cfg.Rules.Owners != nil {
		return
	}
	const want = "no one is known to be an owner, so that it would be for everyone: set " +
		"Rules.Owners, empty for no one, or Owner"
	if len(cfg.Rules.OwnerOnly) > 0 {
		c.errs = append(c.errs, &ConfigError{
			Path: "Rules.OwnerOnly", Setting: "tools.ownerOnly", Message: want,
		})
	}
	for i, t := range cfg.Tools {
		if t.OwnerOnly {
			c.bad(fmt.Sprintf("Tools[%d].OwnerOnly", i), "tool %s: %s", text.Quote(t.Name), want)
		}
	}
}

// withOwners returns the Rules with what Owner and the Tools say: no one is an owner of whom the
// program has not said so, and what is marked is for owners alone.
func (c *Config) withOwners() policy.Rules {
	r := c.Rules
	if c.Owner != nil && r.Owners == nil {
		r.Owners = []policy.Person{}
	}
	for _, t := range c.Tools {
		if !t.OwnerOnly {
			continue
		}
		if r.OwnerOnly == nil {
			r.OwnerOnly = policy.DefaultOwnerOnly()
		}
		r.OwnerOnly = append(slices.Clip(r.OwnerOnly), t.Name)
	}
	return r
}

// logDoubt logs what is doubtful in a Config.
func logDoubt(log *slog.Logger, d policy.Doubt) {
	log.Warn("offshoot: the configuration is doubtful", "field", "Config."+d.Field,
		"setting", d.Path, "doubt", d.Text)
}

// settingBelow returns the place of what has a name of the program's below another place in the
// JSON configuration. A name that is more than one word stands in brackets.
func settingBelow(path, name string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	if name == "" || strings.Trim(name, plain) != "" {
		return path + "[" + text.Quote(name) + "]"
	}
	return path + "." + name
}

// threads adds the mistakes of the Threads.
func (c *checkup) threads(t *Threads) {
	c.bindings("Threads.Bindings", "session.threadBindings", t.Bindings)
	seen := make(map[string]string, len(t.Channels))
	for _, name := range slices.Sorted(maps.Keys(t.Channels)) {
		field, folded := channelField(name), strings.ToLower(name)
		other, twice := seen[folded]
		seen[folded] = name
		clean := session.Route{Channel: name}.Clean().Channel
		switch {
		case name == "":
			c.bad(field, "the name of a channel is empty")
			continue
		case clean != folded || text.NameFault(name) != "":
			c.bad(field, "%s is not the name of a channel", text.Quote(name))
			continue
		case twice:
			c.bad(field, "it is the channel of %s, since letter case does not matter",
				channelField(other))
		}
		channel := t.Channels[name]
		setting := settingBelow("channels", clean)
		c.bindings(field+".Bindings", setting+".threadBindings", channel.Bindings)
		for _, account := range slices.Sorted(maps.Keys(channel.Accounts)) {
			at := fmt.Sprintf("%s.Accounts[%q]", field, account)
			if account == "" || account != strings.TrimSpace(account) {
				c.bad(at, "%s is not the name of an account", text.Quote(account))
			}
			c.bindings(at, settingBelow(setting+".accounts", account)+".threadBindings",
				channel.Accounts[account])
		}
	}
}

// bindings adds the mistakes of one level of settings.
func (c *checkup) bindings(field, path string, s binding.Settings) {
	for _, err := range splitErrors(s.Validate(path)) {
		if f, ok := errors.AsType[*binding.SettingError](err); ok {
			c.errs = append(c.errs, &ConfigError{
				Path: field + "." + f.Field, Setting: f.Path,
				Message: fmt.Sprintf("%v is not a number of hours in 0..1000000", f.Value),
			})
			continue
		}
		c.bad(field, "%v", err)
	}
}

// checkBound returns a *LimitError for a conversation of which a part is too long, and an
// *InputError for one that the journal could not keep as it is.
func checkBound(r session.Route) error {
	for _, part := range [...]struct{ name, value string }{
		{"Channel", r.Channel}, {"Account", r.Account}, {"To", r.To}, {"Thread", r.Thread},
	} {
		if n := len(part.value); n > session.MaxKeyLen {
			return &LimitError{
				Field: "Conversation." + part.name, Size: n, Limit: session.MaxKeyLen,
				Unit: "bytes", Path: "session.MaxKeyLen",
			}
		}
		if !utf8.ValidString(part.value) {
			return &InputError{
				Field:  "Conversation." + part.name,
				Reason: "it is not UTF-8: " + text.Quote(part.value),
			}
		}
	}
	return nil
}
