package openclaw

import (
	"maps"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// models converts the names of models, what they cost, and which of them may be used.
func (c *converter) models() {
	d := &c.file.Agents.Defaults
	if name := c.model("agents.defaults.model", d.Model); name != "" {
		c.change(func(cfg *agent.Config) { cfg.Models.Model = name })
	}
	aliases := make(map[string]string)
	c.aliases, c.aliasAt = aliases, make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(d.Models)) {
		if a := d.Models[name].Alias; a != nil && strings.TrimSpace(*a) != "" {
			alias := strings.ToLower(strings.TrimSpace(*a))
			if strings.Contains(alias, "/") || !policy.IsModelName(alias) {
				c.wrong(dot("agents.defaults.models", name)+".alias",
					"it is %s, want one word without a slash, of at most 256 bytes", c.quote(*a))
				continue
			}
			if other, ok := aliases[alias]; ok {
				c.doubt(dot("agents.defaults.models", name)+".alias",
					"it is passed over, since it stands for %s", c.quote(other))
				continue
			}
			aliases[alias] = strings.TrimSpace(name)
			c.aliasAt[alias] = dot("agents.defaults.models", name) + ".alias"
		}
	}
	if len(aliases) > 0 {
		c.change(func(cfg *agent.Config) {
			all := maps.Clone(cfg.Prompts.Input.Aliases)
			if all == nil {
				all = make(map[string]string, len(aliases))
			}
			maps.Copy(all, aliases)
			cfg.Prompts.Input.Aliases = all
		})
	}
	c.allowed(aliases)
	c.prices()
}

// allowed has only the models of agents.defaults.models used, if there is one, and those that the
// file itself names for a use.
func (c *converter) allowed(aliases map[string]string) {
	d := &c.file.Agents.Defaults
	if len(d.Models) == 0 {
		return
	}
	known := make(map[string]bool)
	add := func(name string) {
		name = strings.ToLower(strings.TrimSpace(name))
		known[name] = true
		if full, ok := aliases[name]; ok {
			known[strings.ToLower(full)] = true
		}
	}
	for name := range d.Models {
		add(name)
	}
	refs := []*modelRef{d.Model, d.Subagents.Model}
	for i := range c.file.Agents.List {
		refs = append(refs, c.file.Agents.List[i].Model, c.file.Agents.List[i].Subagents.Model)
	}
	for _, m := range refs {
		if m == nil {
			continue
		}
		if m.Primary != nil {
			add(*m.Primary)
		}
		for _, name := range m.Fallbacks {
			add(name)
		}
	}
	c.change(func(cfg *agent.Config) {
		before := cfg.Models.Valid
		cfg.Models.Valid = func(name string) bool {
			return known[strings.ToLower(name)] && (before == nil || before(name))
		}
	})
}

// prices converts models.providers.*.models[].cost.
func (c *converter) prices() {
	prices, from := make(map[string]agent.Price), make(map[string]string)
	c.priceAt = make(map[string]string)
	for _, provider := range slices.Sorted(maps.Keys(c.file.Models.Providers)) {
		base := dot("models.providers", provider) + ".models"
		for i, m := range c.file.Models.Providers[provider].Models {
			path := item(base, i)
			if m.Cost == nil {
				continue
			}
			if m.ID == nil || strings.TrimSpace(*m.ID) == "" {
				c.wrong(path, "it lacks id, which says of which model the cost is")
				continue
			}
			name := strings.TrimSpace(provider) + "/" + strings.TrimSpace(*m.ID)
			low := strings.ToLower(name)
			if other, ok := from[low]; ok {
				c.doubt(path, "its cost is passed over, since %s is the same model", shown(other))
				continue
			}
			from[low], prices[name], c.priceAt[name] = path, m.Cost.price(), path
		}
	}
	if len(prices) == 0 {
		return
	}
	c.change(func(cfg *agent.Config) {
		all := maps.Clone(cfg.Models.Prices)
		if all == nil {
			all = make(map[string]agent.Price, len(prices))
		}
		maps.DeleteFunc(all, func(name string, _ agent.Price) bool {
			return from[strings.ToLower(name)] != ""
		})
		maps.Copy(all, prices)
		cfg.Models.Prices = all
	})
}

func (c *cost) price() (p agent.Price) {
	for _, f := range []struct {
		from *float64
		to   *float64
	}{
		{c.Input, &p.Input},
		{c.Output, &p.Output},
		{c.CacheRead, &p.CacheRead},
		{c.CacheWrite, &p.CacheWrite},
	} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	return p
}

// merge sets what t says in s.
func (t *threads) merge(s *binding.Settings) {
	spawn := t.SpawnAny
	if t.Spawn != nil {
		spawn = t.Spawn
	}
	for _, f := range []struct{ from, to **bool }{
		{&t.Enabled, &s.Enabled}, {&spawn, &s.SpawnSubagentSessions},
	} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
	for _, f := range []struct{ from, to **float64 }{
		{&t.IdleHours, &s.IdleHours}, {&t.MaxAgeHours, &s.MaxAgeHours},
	} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
}

// channelThreads are the settings of threads of a channel.
type channelThreads struct {
	name     string
	of       *threads
	accounts map[string]account
}

// applyChannels sets the settings of channels, which it makes without a Host if they are not there.
func applyChannels(cfg *agent.Config, set []channelThreads) {
	channels := maps.Clone(cfg.Threads.Channels)
	if channels == nil {
		channels = make(map[string]agent.ThreadChannel)
	}
	named := make(map[string]string, len(channels)) // by the name in lower case
	for _, as := range slices.Backward(slices.Sorted(maps.Keys(channels))) {
		named[strings.ToLower(as)] = as
	}
	for _, x := range set {
		low := strings.ToLower(x.name)
		if named[low] == "" {
			named[low] = x.name
		}
		name := named[low]
		channels[name] = x.in(channels[name])
	}
	cfg.Threads.Channels = channels
}

// in returns the settings of a channel with what x says in their place.
func (x *channelThreads) in(ch agent.ThreadChannel) agent.ThreadChannel {
	x.of.merge(&ch.Bindings)
	ch.Accounts = maps.Clone(ch.Accounts)
	if ch.Accounts == nil && len(x.accounts) > 0 {
		ch.Accounts = make(map[string]binding.Settings, len(x.accounts))
	}
	for id, a := range x.accounts {
		s := ch.Accounts[id]
		a.Threads.merge(&s)
		ch.Accounts[id] = s
	}
	return ch
}
