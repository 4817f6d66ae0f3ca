// Package histories shows how an orchestrator on top of package spawn is tested with random
// histories. A Desk has a sub-agent work on each order. Two of its three versions have a mistake
// that a test of one call does not find: desk_test.go has spawntest.Histories find them, and says
// in how few steps.
//
//	Order  -->  Desk  -->  spawn.Supervisor  -->  a run for each order
//	              |
//	             Ack   tells the customer, who outlives the process
package histories

import (
	"context"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Version of the Desk.
type Version int

// The versions.
const (
	Mended  Version = iota // each order has its key, and is acknowledged when it is on record
	Keyless                // it tries again what may have happened, without a key
	Hasty                  // it acknowledges before it records
)

// A Desk takes orders and has a sub-agent work on each.
type Desk struct {
	Version Version
	Spawn   func(context.Context, session.Key, session.Key, spawn.Request) (spawn.RunInfo, error)
	Ack     func(order string) error // tells the customer
}

// top is the session that the runs belong to.
var top = session.Must(session.MainKey("main"))

// Order takes an order. It returns when the order was acknowledged, or why it was not. What may
// have happened is tried again.
func (d *Desk) Order(ctx context.Context, order string) (err error) {
	for range 3 {
		if err = d.take(ctx, order); err == nil {
			return nil
		}
	}
	return err
}

// take records an order, and acknowledges it.
func (d *Desk) take(ctx context.Context, order string) error {
	if d.Version == Hasty {
		if err := d.Ack(order); err != nil {
			return err
		}
	}
	q := spawn.Request{Task: order, Key: order, Announce: true}
	if d.Version == Keyless {
		q.Key = ""
	}
	if _, err := d.Spawn(ctx, top, top, q); err != nil || d.Version == Hasty {
		return err
	}
	return d.Ack(order)
}
