package agent

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Types of package spawn for [Runtime.Usage] and [Runtime.Sessions].
type (
	// UsageQuery selects usage, and says what the report tells apart.
	UsageQuery = spawn.UsageQuery
	// UsageBy is something by which a UsageReport tells usage apart.
	UsageBy = spawn.UsageBy
	// UsageReport is what was used.
	UsageReport = spawn.UsageReport
	// UsageRow is what was used together.
	UsageRow = spawn.UsageRow
	// SessionQuery selects sessions.
	SessionQuery = spawn.SessionQuery
	// SessionInfo is what is known of a session at one moment.
	SessionInfo = spawn.SessionInfo
	// SessionStatus is what is known of one session, with what it has used and may still use.
	SessionStatus = spawn.SessionStatus
	// BudgetStatus is one budget that a session counts against.
	BudgetStatus = spawn.BudgetStatus
)

// What a UsageReport can tell apart.
const (
	// UsageByDay tells days of the Zone of the query apart.
	UsageByDay = spawn.UsageByDay
	// UsageByTree tells top-level sessions apart, each with everything below it.
	UsageByTree = spawn.UsageByTree
	// UsageBySession tells sessions apart; a run is one.
	UsageBySession = spawn.UsageBySession
	// UsageByAgent tells the agents apart that run the sessions.
	UsageByAgent = spawn.UsageByAgent
	// UsageByModel tells the models apart that were called.
	UsageByModel = spawn.UsageByModel
)

// Usage reports what sessions have used, in tokens and money. It is the same after archives,
// snapshots and restarts. The Model of a query may be an alias.
//
// Trees that are not in memory are read from the Store, each at the cost of opening it, and are not
// kept. A query with a Session reads one tree. The report beside an error lacks the trees that
// cannot be read. The error joins theirs, or is that of a journal that cannot list them. It is
// [ErrNotFound] for a sub-agent that is not on record, an *[InputError] for an unknown By,
// [ErrShutdown], or the cause of ctx. See [spawn.Supervisor.Usage].
func (rt *Runtime) Usage(ctx context.Context, q UsageQuery) (UsageReport, error) {
	if err := rt.checked(ctx); err != nil {
		return UsageReport{}, err
	}
	q.Model = rt.cfg().modelNamed(q.Model)
	return rt.sup.Usage(ctx, q)
}

// Sessions lists the sessions on record, those that were active last first, also those of earlier
// processes. Runs that are archived are not among them. What it costs, and what stands beside an
// error, is as with [Runtime.Usage]. The error is also an *[InputError] for a negative Limit.
func (rt *Runtime) Sessions(ctx context.Context, q SessionQuery) ([]SessionInfo, error) {
	if err := rt.checked(ctx); err != nil {
		return nil, err
	}
	return rt.sup.Sessions(ctx, q)
}

// Status returns how the session stands: its model, what it has used with everything below it, and
// what is left of the budgets that it counts against. A top-level session that never was has done
// nothing. The error is [ErrNotFound] for a sub-agent that is not on record, or one that every call
// that reads can return.
func (s *Session) Status(ctx context.Context) (SessionStatus, error) {
	root, err := s.tree(ctx)
	if err != nil {
		return SessionStatus{}, s.rt.orArchived(ctx, s.key, err)
	}
	status, err := s.rt.sup.SessionStatus(ctx, root, s.key)
	return status, s.rt.orArchived(ctx, s.key, err)
}

// A Price is what a model costs, in US dollars a million tokens. A field that is zero costs
// nothing.
type Price struct {
	Input      float64 // tokens of the prompt, without those read from a cache
	Output     float64 // tokens of the answer
	CacheRead  float64 // tokens of the prompt that a cache held
	CacheWrite float64 // tokens of the prompt that went into a cache
}

// cost returns what a usage costs, in US dollars. What is out of range is the largest number there
// is.
func (p Price) cost(u Usage) float64 {
	sum := 0.0
	for _, part := range [...]struct {
		tokens int64
		price  float64
	}{
		{u.Input, p.Input},
		{u.Output, p.Output},
		{u.CacheRead, p.CacheRead},
		{u.CacheWrite, p.CacheWrite},
	} {
		if part.tokens > 0 {
			sum += float64(part.tokens) / 1e6 * part.price
		}
	}
	return min(sum, math.MaxFloat64)
}

// A priceList has prices by the name of the model in lower case.
type priceList map[string]Price

// priceList returns the prices of the Models by full names.
func (c *Config) priceList() priceList {
	list := make(priceList, len(c.Models.Prices))
	for name, price := range c.Models.Prices {
		list[c.priceName(name)] = price
	}
	return list
}

// priceName returns the name under which a priceList has the price of a model.
func (c *Config) priceName(model string) string {
	return strings.ToLower(strings.TrimSpace(c.modelNamed(model)))
}

// priced returns u with its cost if the caller has not set one and the price of the model is known.
// An empty model is that of the turn. A model without a provider, as providers name them in
// answers, is looked for with that of the turn's model, too.
func (t *Turn) priced(model string, u Usage) Usage {
	if u.Cost > 0 || len(t.rt.prices) == 0 {
		return u
	}
	if model == "" {
		model = t.Model
	}
	name := t.rt.cfg().priceName(model)
	price, ok := t.rt.prices[name]
	if !ok && !strings.Contains(name, "/") {
		provider, _, _ := strings.Cut(t.rt.cfg().priceName(t.Model), "/")
		price, ok = t.rt.prices[provider+"/"+name]
	}
	if ok {
		u.Cost = price.cost(u)
	}
	return u
}

// prices adds the mistakes of the prices.
func (c *checkup) prices(cfg *Config) {
	seen := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(cfg.Models.Prices)) {
		at := fmt.Sprintf("Models.Prices[%q]", name)
		full := cfg.priceName(name)
		other, twice := seen[full]
		seen[full] = name
		if fault := policy.ModelFault(name); fault != "" {
			c.bad(at, "%s", fault)
		} else if twice {
			c.bad(at, "it is the model of Models.Prices[%q], too", other)
		}
		p := cfg.Models.Prices[name]
		for _, f := range [...]struct {
			field string
			value float64
		}{
			{"Input", p.Input},
			{"Output", p.Output},
			{"CacheRead", p.CacheRead},
			{"CacheWrite", p.CacheWrite},
		} {
			if !(f.value >= 0) || math.IsInf(f.value, 0) {
				c.bad(at+"."+f.field, "it is %v; want US dollars a million tokens, 0 or more", f.value)
			}
		}
	}
}

// unusedPrices looks for prices of what cannot be the name of a model that is called.
func (c *checkup) unusedPrices(cfg *Config) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Models.Prices)) {
		if !strings.Contains(cfg.priceName(name), "/") {
			c.doubt(fmt.Sprintf("Models.Prices[%q]", name), "%s is neither of the form "+
				"\"provider/model\" nor an alias", text.Quote(name))
		}
	}
}
