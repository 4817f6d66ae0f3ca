package tree

import (
	"cmp"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/sat"
)

// A Ledger is what a session has used, by model and time. [Apply] writes it from the ends of turns.
//
// A run that leaves the tree leaves what it has used to its requester, without its name: so the sum
// over a tree stays what it was, and what is kept is bounded by agents, models and time instead of
// by runs.
type Ledger struct {
	Own   []UsageSeries `json:"own,omitempty"`   // of the session itself; Agent is empty
	Below []UsageSeries `json:"below,omitempty"` // of runs below it that have left the tree
}

// A UsageSeries is what one agent has used of one model. Days are those that [Tree.coarsen] has
// made of quarters of an hour. Both are in the order of time.
type UsageSeries struct {
	Agent    string     `json:"agent,omitempty"`
	Model    Text       `json:"model,omitempty"` // empty: not known
	Days     []UsageRow `json:"days,omitempty"`
	Quarters []UsageRow `json:"quarters,omitempty"`
}

// A UsageRow is what was used in one quarter of an hour or one day of UTC, the Nth since 1970. What
// a turn has used counts when the turn ends.
type UsageRow struct {
	N uint32 `json:"n"`
	Usage
}

// A ModelUsage is what a turn has used of one model.
type ModelUsage struct {
	Model Text `json:"model,omitempty"` // empty: not known
	Usage
}

const (
	quarter        = 15 * time.Minute
	day            = 24 * time.Hour
	quartersPerDay = uint32(day / quarter)

	// fineUsage is how long quarters of an hour are kept apart: two months, which people look at
	// in their own time zone. Zones begin their days at quarters of an hour. Older usage is kept by
	// days of UTC.
	fineUsage = 62 * day

	// maxSeries is how many series a list has before further models are counted as OtherModels: a
	// Runner may report a name of its own for each call.
	maxSeries = 256
)

// OtherModels stands in a ledger, and in what a turn reports, for the models beyond a bound.
const OtherModels = "(others)"

// nth returns how many units of time had passed since 1970 at a time in Unix nanoseconds; 0 before.
func nth(at int64, unit time.Duration) uint32 { return uint32(max(at, 0) / int64(unit)) }

// recordUsage adds what a turn that ended at a time has used.
func (r *Run) recordUsage(a *Result, at int64) {
	if a.Usage != (Usage{}) {
		r.ownSpent().Usage = r.Usage.add(a.Usage)
	}
	if len(a.ByModel()) == 0 {
		r.enterUsage(cmp.Or(a.Model, Text(r.Spec.Model)), at, a.Usage)
	}
	for _, m := range a.ByModel() {
		r.enterUsage(m.Model, at, m.Usage)
	}
}

// enterUsage adds to what r itself has used.
func (r *Run) enterUsage(model Text, at int64, u Usage) {
	if u == (Usage{}) {
		return
	}
	l := r.ownLedger()
	s := seriesOf(&l.Own, "", model)
	s.Quarters = addRow(s.Quarters, UsageRow{nth(at, quarter), u})
}

// ownLedger returns the ledger of r, and makes it at the first call.
func (r *Run) ownLedger() *Ledger {
	own := r.ownSpent()
	if own.Ledger == nil {
		own.Ledger = &own.room
	}
	return own.Ledger
}

// inheritUsage adds what c, which leaves the tree, and runs below it have used to what runs below r
// have.
func (r *Run) inheritUsage(c *Run) {
	if c.Ledger == nil {
		return
	}
	l := r.ownLedger()
	merge := func(agent string, from *UsageSeries) {
		s := seriesOf(&l.Below, agent, from.Model)
		for _, row := range from.Days {
			s.Days = addRow(s.Days, row)
		}
		for _, row := range from.Quarters {
			s.Quarters = addRow(s.Quarters, row)
		}
	}
	for i := range c.Ledger.Own {
		merge(c.Spec.Agent, &c.Ledger.Own[i])
	}
	for i := range c.Ledger.Below {
		merge(c.Ledger.Below[i].Agent, &c.Ledger.Below[i])
	}
}

// seriesOf returns the series of an agent and a model in a list that is ordered by both, and adds
// it if need be.
func seriesOf(list *[]UsageSeries, agent string, model Text) *UsageSeries {
	find := func() (int, bool) {
		return slices.BinarySearchFunc(*list, model, func(s UsageSeries, model Text) int {
			return cmp.Or(cmp.Compare(s.Agent, agent), cmp.Compare(s.Model, model))
		})
	}
	i, found := find()
	if !found && len(*list) >= maxSeries {
		model = OtherModels
		i, found = find()
	}
	if !found {
		*list = slices.Insert(*list, i, UsageSeries{Agent: agent, Model: model})
	}
	return &(*list)[i]
}

// addRow adds a row to rows in the order of time. Most rows are added at the end.
func addRow(rows []UsageRow, row UsageRow) []UsageRow {
	i := len(rows)
	for i > 0 && rows[i-1].N > row.N {
		i--
	}
	if i > 0 && rows[i-1].N == row.N {
		rows[i-1].Usage = rows[i-1].add(row.Usage)
		return rows
	}
	return slices.Insert(rows, i, row)
}

// coarsen makes days of UTC of the quarters of an hour that are older than fineUsage at a time.
func (t *Tree) coarsen(now int64) {
	before := nth(sat.Sub(now, int64(fineUsage)), day)
	t.Walk(func(r *Run) {
		if r.Ledger == nil {
			return
		}
		for _, list := range [...][]UsageSeries{r.Ledger.Own, r.Ledger.Below} {
			for i := range list {
				list[i].coarsen(before)
			}
		}
	})
}

// coarsen makes days of the quarters of an hour before a day.
func (s *UsageSeries) coarsen(before uint32) {
	n := 0
	for n < len(s.Quarters) && s.Quarters[n].N/quartersPerDay < before {
		row := s.Quarters[n]
		row.N /= quartersPerDay
		s.Days = addRow(s.Days, row)
		n++
	}
	if n > 0 {
		s.Quarters = slices.Clone(s.Quarters[n:])
	}
}

// clone returns a copy that shares nothing that facts change; nil for nil.
func (l *Ledger) clone() *Ledger {
	if l == nil {
		return nil
	}
	return &Ledger{Own: cloneSeries(l.Own), Below: cloneSeries(l.Below)}
}

func cloneSeries(list []UsageSeries) []UsageSeries {
	list = slices.Clone(list)
	for i := range list {
		list[i].Days = slices.Clone(list[i].Days)
		list[i].Quarters = slices.Clone(list[i].Quarters)
	}
	return list
}

// An Expense is what was used of one model in a piece of time.
type Expense struct {
	Agent  string
	Model  string
	Middle time.Time     // of the piece, in UTC
	Length time.Duration // a quarter of an hour, or a day
	Usage  Usage
}

// Expenses calls f for what r itself has used, and for what runs below it had used that have left
// the tree, which is gone.
func (r *Run) Expenses(f func(x Expense, gone bool)) {
	if r.Ledger == nil {
		return
	}
	each := func(list []UsageSeries, gone bool) {
		for i := range list {
			s := &list[i]
			x := Expense{Agent: s.Agent, Model: string(s.Model)}
			if !gone {
				x.Agent = r.Spec.Agent
			}
			rows := func(rows []UsageRow, length time.Duration) {
				for _, row := range rows {
					start := time.Unix(int64(row.N)*int64(length/time.Second), 0).UTC()
					x.Middle, x.Length, x.Usage = start.Add(length/2), length, row.Usage
					f(x, gone)
				}
			}
			rows(s.Days, day)
			rows(s.Quarters, quarter)
		}
	}
	each(r.Ledger.Own, false)
	each(r.Ledger.Below, true)
}

// LastActive returns when a message last came to the session, it spawned a run, or a turn of it
// started or ended, in Unix nanoseconds. What an earlier library has written says only some of
// these times.
func (r *Run) LastActive() int64 {
	at := max(r.Active, r.Spec.Created, r.Started, r.Ended)
	if r.Active == 0 {
		if r.Open != nil {
			at = max(at, r.Open.Started)
		}
		for i := range r.Inbox {
			at = max(at, r.Inbox[i].At)
		}
	}
	return at
}
