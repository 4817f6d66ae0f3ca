package natsstore

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/offshoot-sdk/offshoot/session/internal/cluster"
)

// newOwners returns the Owners of a Store.
func newOwners(ctx context.Context, e *engine, o Options) (*cluster.Owners, error) {
	// A call that hangs must not take the time of the next beat.
	timeout := max(time.Second, min(o.Timeout, o.Lease/cluster.BeatsPerLease))
	l := newLedger(e, timeout)
	self, err := l.newProcess(ctx, o.Process)
	if err != nil {
		return nil, err
	}
	return cluster.NewOwners(ctx, cluster.Options{
		Package: "natsstore", Ledger: l, Wire: newWire(e.conn, e.name+".hint"), Self: self,
		Lease: o.Lease, Timeout: timeout,
		Store: cluster.Store{Closed: e.closed.Load, Close: e.close},
	}), nil
}

// newWire returns what brings hints from process to process: messages that no stream keeps.
func newWire(conn *nats.Conn, subject string) cluster.Wire {
	const separator = "\n"
	return cluster.Wire{
		Send: func(_ context.Context, hints []string) {
			_ = conn.Publish(subject, []byte(strings.Join(hints, separator)))
		},
		Listen: func(ctx context.Context, begun func(), take func(hint string)) {
			sub, err := conn.SubscribeSync(subject)
			if err != nil {
				return
			}
			defer func() { _ = sub.Unsubscribe() }()
			begun()
			for {
				m, err := sub.NextMsgWithContext(ctx)
				if err != nil {
					return
				}
				for hint := range strings.SplitSeq(string(m.Data), separator) {
					take(hint)
				}
			}
		},
	}
}
