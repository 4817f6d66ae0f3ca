package pgstore

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/cluster"
)

// An owners is the [session.Owners] of one process. It has connections of its own, so that what a
// bot writes does not hold up a beat.
type owners struct {
	*cluster.Owners
	ledger ledger
}

// ownConns is how many connections an owners has at most for its calls, beside the one for hints.
const ownConns = 4

// newOwners returns the Owners of a Store.
func newOwners(ctx context.Context, d *database, o Options) (*owners, error) {
	config := d.pool.Config()
	config.MaxConns, config.MinConns, config.MinIdleConns = ownConns, 0, 0
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	// A call that hangs must not take the time of the next beat.
	timeout := max(time.Second, min(o.Timeout, o.Lease/cluster.BeatsPerLease))
	d.idle = timeout
	l := newLedger(pool, d.hold, o.Schema, timeout, o.Timeout)
	self, err := l.newProcess(ctx, o.Process)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &owners{cluster.NewOwners(ctx, cluster.Options{
		Package: "pgstore", Ledger: l, Wire: newWire(pool, o.Schema, !o.Shared),
		Self: self, Lease: o.Lease, Timeout: timeout,
		Store: cluster.Store{Closed: d.closed.Load, Close: d.close},
	}), l}, nil
}

// newLedger returns the ledger of a schema, whose calls have a time each, and a longer one where
// they carry a body. No transaction holds locks longer than the short one while it is silent.
func newLedger(
	pool *pgxpool.Pool, h *hold, schema string, timeout, bodies time.Duration,
) ledger {
	in := func(timeout, idle time.Duration) *database {
		return &database{
			pool: pool, owned: true, schema: schema, timeout: timeout, hold: h, idle: idle,
		}
	}
	return ledger{in(timeout, timeout), in(max(timeout, bodies), timeout)}
}

// end gives up the claims and the lease of the process, for good. The Store is closed.
func (o *owners) end() {
	o.End(context.Background())
	o.ledger.closed.Store(true)
	o.ledger.bodies.closed.Store(true)
	o.ledger.pool.Close()
}

// fence returns the incarnation of the process if it has claimed a tree and not released it: then
// it may append unless another process has the tree meanwhile. Nil: it appends without a claim.
func (o *owners) fence(root session.Key) *int64 {
	if o == nil || o.Epoch(root) == 0 {
		return nil
	}
	n := id(o.Self())
	return &n
}

// newWire returns what brings hints from process to process: LISTEN and NOTIFY of the server, sent
// beside the transactions that they are about, because a NOTIFY within one has all transactions
// that commit wait for each other. Unless it listens, hints come from this process alone.
func newWire(pool *pgxpool.Pool, schema string, listens bool) cluster.Wire {
	h := fnv.New64a()
	_, _ = h.Write([]byte(lockName(schema)))
	channel := fmt.Sprintf("offshoot_%016x", h.Sum64())
	w := cluster.Wire{Send: func(ctx context.Context, hints []string) {
		_, _ = pool.Exec(ctx, `select pg_notify($1, hint) from unnest($2::text[]) as hint`,
			channel, hints)
	}}
	if listens {
		w.Listen = func(ctx context.Context, begun func(), take func(hint string)) {
			listen(ctx, pool, channel, begun, take)
		}
	}
	return w
}

// listen takes what comes on a channel, until the connection ends or ctx is done.
func listen(
	ctx context.Context, pool *pgxpool.Pool, channel string, begun func(), take func(hint string),
) {
	acquired, err := pool.Acquire(ctx)
	if err != nil {
		return
	}
	conn := acquired.Hijack()
	defer closeConn(ctx, conn)
	if _, err = conn.Exec(ctx, `listen `+channel); err != nil {
		return
	}
	begun()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return
		}
		take(n.Payload)
	}
}
