package spawn

import "github.com/offshoot-sdk/offshoot/spawn/internal/tree"

// Live returns what Supervisor.Runs and Supervisor.Outbox would return of the tree in memory, and how its top-level session stands.
func (c Checkpoint) Live() (runs []RunInfo, outbox []Delivery, top Status) {
	c.tree.Outbox(func(e *tree.Entry) { outbox = append(outbox, outgoingOf(c.tree, e)) })
	return runsBelow(c.tree, c.tree.Root(), true, nil), outbox, Status(c.tree.Root().State)
}
