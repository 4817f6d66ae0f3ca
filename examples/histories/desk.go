// Histories shows how an orchestrator on top of package spawn is tested with random histories. A
// Desk has a sub-agent work on each order. Two of its three versions have a mistake that no test of
// one call finds: main_test.go has spawntest.Histories find them, and prints in how few steps.
//
//	Order  -->  Desk  -->  spawn.Supervisor  -->  a run for each order
//	              |
//	            Ledger   what was acknowledged, which outlives the process
package main

import (
	"context"
	"errors"
	"time"

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

// Order takes an order. It returns when the order was acknowledged, or why it was not.
func (d *Desk) Order(ctx context.Context, order string) error {
	if d.Version == Hasty {
		if err := d.Ack(order); err != nil {
			return err
		}
	}
	if err := d.record(ctx, order); err != nil || d.Version == Hasty {
		return err
	}
	return d.Ack(order)
}

// record spawns the run of an order. What may have happened is tried again.
func (d *Desk) record(ctx context.Context, order string) (err error) {
	q := spawn.Request{Task: order, Key: order, Announce: true}
	if d.Version == Keyless {
		q.Key = ""
	}
	for range 5 {
		_, err = d.Spawn(ctx, top, top, q)
		if !errors.Is(err, spawn.ErrUnconfirmed) && !errors.Is(err, spawn.ErrNotRecorded) {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}
