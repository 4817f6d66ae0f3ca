package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
)

// modelNamed returns the full name of a model that is named by an alias, in any letter case. Any
// other name is returned as it is.
func (c *Config) modelNamed(name string) string {
	if full, ok := inAnyCase(c.Prompts.Input.Aliases, strings.TrimSpace(name)); ok {
		return strings.TrimSpace(full)
	}
	return name
}

// withFullModels returns a copy in which no alias names a model, so that rules, Models.Valid and
// the Runner see one name of each.
func (c Config) withFullModels() Config {
	if len(c.Prompts.Input.Aliases) == 0 {
		return c
	}
	c.Models.Model = c.modelNamed(c.Models.Model)
	c.Rules.Subagents.Model = c.modelNamed(c.Rules.Subagents.Model)
	c.Rules.Agents = slices.Clone(c.Rules.Agents)
	for i := range c.Rules.Agents {
		a := &c.Rules.Agents[i]
		a.Model = c.modelNamed(a.Model)
		a.Subagents.Model = c.modelNamed(a.Subagents.Model)
	}
	return c
}

// aliases adds the mistakes of the names of models. An alias has no slash, so that it is not a full
// name, and names a model, not another alias.
func (c *checkup) aliases(cfg *Config) {
	aliases := cfg.Prompts.Input.Aliases
	seen := make(map[string]string, len(aliases))
	for _, alias := range slices.Sorted(maps.Keys(aliases)) {
		at, model := fmt.Sprintf("Prompts.Input.Aliases[%q]", alias), strings.TrimSpace(aliases[alias])
		folded := strings.ToLower(alias)
		other, twice := seen[folded]
		seen[folded] = alias
		_, chained := inAnyCase(aliases, model)
		switch {
		case alias == "":
			c.bad(at, "an alias is empty")
		case strings.Contains(alias, "/") || !policy.IsModelName(alias):
			c.bad(at, "an alias is one word without a slash, of at most 256 bytes")
		case twice:
			c.bad(at, "it is Prompts.Input.Aliases[%q], since letter case does not matter", other)
		case !policy.IsModelName(model):
			c.bad(at, "it is %s, want a model such as provider/name", text.Quote(model))
		case chained:
			c.bad(at, "it is %s, which is an alias, too; want the full name of a model",
				text.Quote(model))
		}
	}
	c.byAlias("Rules.Tools.ByProvider", aliases, cfg.Rules.Tools.ByProvider)
	for i := range cfg.Rules.Agents {
		c.byAlias(fmt.Sprintf("Rules.Agents[%d].Tools.ByProvider", i), aliases,
			cfg.Rules.Agents[i].Tools.ByProvider)
	}
}

// byAlias adds the rules for a model that name it by an alias: they never hold, because rules see
// the full name. The alias may be the name of its provider as well.
func (c *checkup) byAlias(
	path string, aliases map[string]string, rules map[string]policy.ToolPolicy,
) {
	for _, key := range slices.Sorted(maps.Keys(rules)) {
		name := strings.TrimSpace(key)
		full, isAlias := inAnyCase(aliases, name)
		provider, _, _ := strings.Cut(full, "/")
		if isAlias && !strings.EqualFold(provider, name) {
			c.bad(fmt.Sprintf("%s[%q]", path, key),
				"it is an alias of the model %s; rules are for the full name", text.Quote(full))
		}
	}
}
