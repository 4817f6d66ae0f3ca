package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// A refusal is why the server has not written what it was asked to: nil while it takes what is
// written. A server may answer what is read, and have a full disk, or have become one that is only
// read.
type refusal struct{ err atomic.Pointer[error] }

// note notes what has become of a write. What the server has undone for another transaction, and
// what did not reach it, is none. A write that succeeds proves nothing: there may be room for less
// than was refused.
func (r *refusal) note(err error) {
	if serverCode(err) != "" && !wasUndone(err) && !isConnection(err) {
		r.err.Store(&err)
	}
}

// probeSize is how many bytes a probe writes. It is more than what is left of a page.
const probeSize = 64 << 10

var errProbed = errors.New("pgstore: the probe is undone")

// probe returns nil if the server has refused no write, or takes one now, which is undone.
func (d *database) probe(ctx context.Context) error {
	refused := d.refused.err.Load()
	if refused == nil {
		return nil
	}
	level := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
	err := d.attempt(ctx, func(ctx context.Context) error {
		err := pgx.BeginTxFunc(ctx, d.pool, level, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, d.sql(`
				with blob as (insert into {}.blobs (key, session) values ('', '') returning id)
				insert into {}.chunks (blob, n, data) select id, 0, $1::bytea from blob`),
				make([]byte, probeSize))
			if err == nil {
				err = errProbed
			}
			return err
		})
		if errors.Is(err, errProbed) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("the server refuses to write (is its disk full?): %w", *refused)
	}
	d.refused.err.CompareAndSwap(refused, nil)
	return nil
}
