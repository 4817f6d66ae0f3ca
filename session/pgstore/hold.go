package pgstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// lookAfter is how long the owner of a schema believes in its lock without asking.
const lookAfter = 10 * time.Second

// The time after which the server asks whether a silent holder of a lock is still there, between
// two questions, and how many go unanswered until it ends the connection. A server that is reached
// by a socket of its machine does not need to ask.
const lockSettings = `
	set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3`

// A hold is the lock of a schema: an advisory lock of a connection that does nothing else. The
// processes of a cluster have it together, and one without a cluster has it alone. A nil hold is
// that of a shared schema, and always there. Its methods may be called concurrently.
type hold struct {
	schema string
	member bool // of a cluster
	config *pgx.ConnConfig
	now    func() time.Duration // since the hold was made

	// looked is when the lock was there, as now says it; 0: in doubt.
	looked atomic.Int64
	lost   atomic.Pointer[LostError] // nil: not lost

	turn chan struct{} // has one element while no goroutine uses the fields below
	conn *pgx.Conn     // nil: not connected
	mine backend       // that of conn, or of the one before
}

// A backend is a process of the server, which serves one connection.
type backend struct {
	pid   int
	since time.Time
}

// takeHold takes the lock of a schema, together with other members if this is one. The error is a
// *[LockedError] if another process has it.
func takeHold(
	ctx context.Context, config *pgx.ConnConfig, schema string, member bool,
) (*hold, error) {
	config = config.Copy()
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	config.RuntimeParams["application_name"] = fmt.Sprintf("offshoot %s %d", host, os.Getpid())
	begun := time.Now()
	// The clock begins at one, because zero is doubt.
	now := func() time.Duration { return time.Since(begun) + 1 }
	h := &hold{
		schema: schema, member: member, config: config, now: now, turn: make(chan struct{}, 1),
	}
	if err := h.take(ctx); err != nil {
		return nil, err
	}
	h.turn <- struct{}{}
	return h, nil
}

// take connects and takes the lock. The caller has no connection, and is alone with h.
func (h *hold) take(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, h.config)
	if err != nil {
		return err
	}
	if err = h.lock(ctx, conn); err != nil {
		closeConn(ctx, conn)
		return err
	}
	h.conn = conn
	h.looked.Store(int64(h.now()))
	return nil
}

// lock takes the lock with a connection. If the lock is held by the connection that this one
// replaces, because the server has not seen the end of that yet, the server is told.
func (h *hold) lock(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, lockSettings); err != nil {
		return err
	}
	const tries = 20 // with a pause of 50 ms
	statement := `select pg_try_advisory_lock(hashtextextended($1, 0))`
	if h.member {
		statement = `select pg_try_advisory_lock_shared(hashtextextended($1, 0))`
	}
	for try := range tries {
		var taken bool
		err := conn.QueryRow(ctx, statement, lockName(h.schema)).Scan(&taken)
		if err != nil {
			return err
		}
		if taken {
			var mine backend
			err = conn.QueryRow(ctx, `select pid, backend_start from pg_stat_activity
				where pid = pg_backend_pid()`).Scan(&mine.pid, &mine.since)
			h.mine = mine
			return err
		}
		locked, err := lockedBy(ctx, conn, h.schema)
		if err != nil {
			return err
		}
		holder := backend{locked.PID, locked.Since}
		gone := holder.pid == 0
		stale := holder.pid != 0 && holder.pid == h.mine.pid && holder.since.Equal(h.mine.since)
		if !gone && !stale || try == tries-1 {
			return locked
		}
		_, err = conn.Exec(ctx, `select case when $1 > 0 then pg_terminate_backend($1) end,
			pg_sleep(0.05)`, holder.pid)
		if err != nil {
			return err
		}
	}
	return nil
}

// lockName is the text whose hash is the number of the lock of a schema.
func lockName(schema string) string { return "offshoot pgstore " + schema }

// lockedBy returns who holds a lock, without a PID if that has just gone.
func lockedBy(ctx context.Context, conn *pgx.Conn, schema string) (*LockedError, error) {
	e := &LockedError{Schema: schema}
	err := conn.QueryRow(ctx, `
		select a.pid, a.application_name, coalesce(host(a.client_addr), ''), a.backend_start,
			l.mode = 'ShareLock'
		from pg_locks l join pg_stat_activity a on a.pid = l.pid,
			hashtextextended($1, 0) as name
		where l.locktype = 'advisory' and l.granted and l.objsubid = 1
			and l.database = (select oid from pg_database where datname = current_database())
			and l.classid::bigint = (name >> 32) & 4294967295
			and l.objid::bigint = name & 4294967295
		limit 1`, lockName(schema)).Scan(&e.PID, &e.Name, &e.Addr, &e.Since, &e.Member)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	return e, nil
}

// unlock gives the lock of a connection up, which is to be closed. The server would give it up a
// moment after that, and the next Open would find it. If the server does not answer, it does.
func unlock(ctx context.Context, conn *pgx.Conn) {
	const patience = time.Second
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_, _ = conn.Exec(within, `select pg_advisory_unlock_all()`)
}

// closeConn closes a connection of which nothing more is wanted.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	const patience = time.Second
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_ = conn.Close(within)
}

// doubt says that a connection was cut off, so that the lock may be gone.
func (h *hold) doubt() {
	if h != nil {
		h.looked.Store(0)
	}
}

// check returns nil if the schema is held: the lock was there a moment ago, is there, or was free
// and could be taken again. The error is a *[LostError] if another process has it.
func (h *hold) check(ctx context.Context) error {
	if h == nil {
		return nil
	}
	if err := h.lost.Load(); err != nil {
		return err
	}
	if h.isFresh() {
		return nil
	}
	select {
	case <-h.turn:
		defer func() { h.turn <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := h.lost.Load(); err != nil {
		return err
	}
	if h.isFresh() { // another goroutine has just looked
		return nil
	}
	return h.look(ctx)
}

// isFresh reports whether the lock was there a moment ago.
func (h *hold) isFresh() bool {
	looked := time.Duration(h.looked.Load())
	return looked > 0 && h.now()-looked < lookAfter
}

// look asks whether the lock is there, and takes it again if its connection is gone. The caller is
// alone with h.
func (h *hold) look(ctx context.Context) error {
	if h.conn != nil {
		if h.conn.Ping(ctx) == nil {
			h.looked.Store(int64(h.now()))
			return nil
		}
		closeConn(ctx, h.conn)
		h.conn = nil
	}
	err := h.take(ctx)
	if errors.Is(err, ErrLocked) {
		lost := &LostError{h.schema, err}
		h.lost.Store(lost)
		return lost
	}
	return err
}

// release gives the lock up. It waits for a goroutine that looks after it.
func (h *hold) release(ctx context.Context) {
	if h == nil {
		return
	}
	<-h.turn
	if h.conn != nil {
		unlock(ctx, h.conn)
		closeConn(ctx, h.conn)
		h.conn = nil
	}
	h.lost.CompareAndSwap(nil, &LostError{h.schema, errReleased})
	h.turn <- struct{}{}
}

var errReleased = errors.New("pgstore: the Store was closed")
