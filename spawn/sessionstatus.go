package spawn

import (
	"context"
	"fmt"
	"slices"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A SessionStatus is what is known of one session at one moment, with what it has used and may
// still use. It is a value.
type SessionStatus struct {
	SessionInfo

	// Model is the one that answered last in the session, if that is known, else the one that it is
	// to use, and Thinking its level of thinking. Empty: that of the Runner, or of the Config.
	Model    string `json:"model,omitempty"`
	Thinking string `json:"thinking,omitempty"`
	// Above are the sessions above it, from the one that spawned it to the top.
	Above []session.Key `json:"above,omitempty"`
	// Children is how many sub-agents of the session have not ended.
	Children int `json:"children"`
	// Total is what the session and all runs below it have used, archived ones included. The Usage
	// is that of the session alone.
	Total session.Usage `json:"total,omitzero"`
	// Budgets are those that limit what the session does: its own, those of the sessions above it,
	// and that of the request that it works for. Empty: none does.
	Budgets []BudgetStatus `json:"budgets,omitempty"`
	// Senders are the people for whom the session works: of a sub-agent those of its present run,
	// of a top-level session those of its last turn. See [TurnInput.Senders].
	Senders []policy.Sender `json:"senders,omitempty"`
	// Withheld are the tools that the session has otherwise and that its Senders may not use, each
	// with the rule. Of a sub-agent they are those, too, which its spawn has not granted for that
	// reason. Of one whose spawn asked for a list of tools, what it did not ask for may be among
	// them.
	Withheld []policy.ToolVerdict `json:"withheld,omitempty"`
}

// A BudgetStatus is one budget that a session counts against.
type BudgetStatus struct {
	// Session is the session whose budget it is: of a top-level one it is that of the whole tree,
	// [policy.Rules].Budget. Zero: it is that of one request, [policy.Rules].RequestBudget.
	Session session.Key `json:"session,omitzero"`
	// Limit is the budget, and Left what may still be spent of it, in the fields that it limits: a
	// zero there is nothing. What turns under way have reserved counts as spent.
	Limit policy.Budget `json:"limit"`
	Left  policy.Budget `json:"left"`
}

// SessionStatus returns how a session of the tree root stands. The error is [ErrNotFound] for a
// sub-agent that is not on record, or one that every call that reads can return. A top-level
// session that never was has the status of one that has done nothing.
func (s *Supervisor) SessionStatus(
	ctx context.Context, root, key session.Key,
) (status SessionStatus, err error) {
	found := false
	err = s.do(ctx, root, nil, func(t *tree.Tree, _ tree.Reply) {
		r := t.Run(key)
		if found = r != nil; found {
			status = s.statusOf(t, r)
		}
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: status of %q", ErrNotFound, key)
	}
	return status, err
}

func (s *Supervisor) statusOf(t *tree.Tree, r *tree.Run) SessionStatus {
	status := SessionStatus{
		SessionInfo: sessionOf(t, r, t.Rules().AgentOf),
		Model:       t.Model(r), Thinking: r.Spec.Thinking, Children: r.Live(),
	}
	if r.IsRoot() && status.Thinking == "" {
		status.Thinking = s.cfg.Thinking
	}
	status.Senders = slices.Clone(r.Senders())
	role := t.Authority(r).Role
	for _, tool := range t.Otherwise(r) {
		if v, ok := t.Rules().Withheld(t.Root().Key(), role, r.Senders(), tool); ok {
			status.Withheld = append(status.Withheld, v)
		}
	}
	for x := r.Parent; x != nil; x = x.Parent {
		status.Above = append(status.Above, x.Key())
	}
	sum, _ := newUsageSum(UsageQuery{}, t.Rules().AgentOf) // its By is known
	sum.addSession(t, r, true)
	r.Descend(func(x *tree.Run) { sum.addSession(t, x, true) })
	status.Total = sum.report().Total
	for _, b := range t.BudgetsLeft(r) {
		left := BudgetStatus{Limit: b.Limit, Left: b.Left}
		if b.Of != nil {
			left.Session = b.Of.Key()
		}
		status.Budgets = append(status.Budgets, left)
	}
	return status
}
