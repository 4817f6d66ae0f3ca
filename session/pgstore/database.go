package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/cluster"
)

// A database is what the three parts of a Store share. All methods may be called concurrently.
type database struct {
	pool    *pgxpool.Pool
	owned   bool // the pool is closed with the Store
	schema  string
	timeout time.Duration
	closed  atomic.Bool
	hold    *hold   // nil: the schema is shared
	members *owners // nil: this process has every tree
	refused refusal

	// idle is how long a transaction may hold its locks while this process is silent, because it
	// was stopped or cut off; another process may wait for them. Zero: as the server says.
	idle time.Duration
}

// A querier is a pool or a transaction.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// sql returns a statement with the schema in the place of {}. Names of schemas need no quotes, see
// schemaFault; the quotes are for those that are words of SQL.
func (d *database) sql(statement string) string {
	return strings.ReplaceAll(statement, "{}", `"`+d.schema+`"`)
}

// check returns ErrClosed if the Store is closed, else the error of ctx.
func (d *database) check(ctx context.Context) error {
	if d.closed.Load() {
		return session.ErrClosed
	}
	return ctx.Err()
}

// maxAttempts is how often a transaction is begun that the server undoes.
const maxAttempts = 5

// read calls f with the pool. f may be called again if it fails.
func (d *database) read(ctx context.Context, f func(ctx context.Context, q querier) error) error {
	return d.attempt(ctx, func(ctx context.Context) error { return f(ctx, d.pool) })
}

// write calls f with the pool, once the schema is known to be held. f is one statement. It may be
// called again if the server has undone it.
func (d *database) write(ctx context.Context, f func(ctx context.Context, q querier) error) error {
	return d.attempt(ctx, func(ctx context.Context) error {
		if err := d.hold.check(ctx); err != nil {
			return err
		}
		err := f(ctx, d.pool)
		d.refused.note(err)
		return err
	})
}

// change calls f with a transaction, and commits it if f returns nil. It may call f again.
func (d *database) change(ctx context.Context, f func(ctx context.Context, q querier) error) error {
	return d.attempt(ctx, func(ctx context.Context) error {
		if err := d.hold.check(ctx); err != nil {
			return err
		}
		level := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
		if d.idle > 0 {
			level.BeginQuery = fmt.Sprintf(`begin isolation level read committed read write;
				set local idle_in_transaction_session_timeout = %d`, d.idle.Milliseconds())
		}
		err := pgx.BeginTxFunc(ctx, d.pool, level, func(tx pgx.Tx) error { return f(ctx, tx) })
		d.refused.note(err)
		return err
	})
}

// attempt calls f with the time of one call until the server does not undo what f does. The error
// is [session.ErrClosed], that of ctx, [ErrTimeout], or one of f.
func (d *database) attempt(ctx context.Context, f func(ctx context.Context) error) error {
	if err := d.check(ctx); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	var err error
	for range maxAttempts {
		if err = f(within); err == nil || !wasUndone(err) || within.Err() != nil {
			break
		}
	}
	return d.callError(ctx, within, err)
}

// callError returns the error of a call for one of the driver: that of ctx if it is done, and
// [ErrTimeout] if only the time of the call, within, has passed.
func (d *database) callError(ctx, within context.Context, err error) error {
	if err == nil {
		return nil
	}
	if isConnection(err) {
		d.hold.doubt()
	}
	switch {
	case d.closed.Load():
		return session.ErrClosed
	case isOurs(err):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	case within.Err() != nil: // not wrapped: the caller's ctx is not done
		return fmt.Errorf("%w: no answer in %v: %v", ErrTimeout, d.timeout, err) //nolint:errorlint // see above
	}
	return storedError(err)
}

// isOurs reports whether err was made by this package, and says all there is to say.
func isOurs(err error) bool {
	for _, e := range []error{
		session.ErrConflict, session.ErrArchived, session.ErrNotArchived, session.ErrNotFound,
		session.ErrCorrupt, session.ErrSync, session.ErrFormat, session.ErrUnsafe, errReplaced,
		session.ErrOwned, session.ErrNoOwner, session.ErrUnanswered, session.ErrReplaced,
		session.ErrInvalidRequest, cluster.ErrLapsed, errMoved,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// close ends the Store. It waits for the calls that are under way.
func (d *database) close() {
	if d.closed.Swap(true) {
		return
	}
	if d.members != nil {
		d.members.end()
	}
	d.hold.release(context.Background())
	if d.owned {
		d.pool.Close()
	}
}
