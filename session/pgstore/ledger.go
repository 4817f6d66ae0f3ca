package pgstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/cluster"
	"github.com/offshoot-sdk/offshoot/session/internal/lease"
)

// A ledger has the leases, claims, requests and lanes of a schema. It is what lease.State is in
// memory, method by method, and a test holds the two beside each other.
//
// The clock is that of the server. What depends on a row that others change is decided under the
// lock of that row, in a statement after the one that has locked it: the snapshot of a statement is
// older than what it has waited for. A transaction that locks a log and a process locks the log
// first.
type ledger struct {
	*database
	bodies *database // the same, with the time of calls that carry a body
}

// alive is the condition that the process with an incarnation has a lease.
func alive(incarnation string) string {
	return `exists (select from {}.processes as alive
		where alive.incarnation = ` + incarnation + ` and alive.until > {}.clock())`
}

// id returns the incarnation of p as the server has it.
func id(p session.Process) int64 { return int64(p.Incarnation) } //nolint:gosec // see newProcess

var errMoved = errors.New("pgstore: the claim was given up meanwhile")

// newProcess returns a process of that name which has not joined.
func (l ledger) newProcess(ctx context.Context, name string) (session.Process, error) {
	var n int64
	err := l.write(ctx, func(ctx context.Context, q querier) error {
		return q.QueryRow(ctx, l.sql(`select nextval('{}.incarnations')`)).Scan(&n)
	})
	return session.Process{Name: name, Incarnation: uint64(n)}, err //nolint:gosec // from 1
}

// renew begins or renews the lease of p, and reports whether it begins. A process of the same name
// that has joined before p has lost its claims by that.
func (l ledger) renew(
	ctx context.Context, q querier, p session.Process, d time.Duration,
) (begun bool, err error) {
	err = q.QueryRow(ctx, l.sql(`
		insert into {}.processes as p (name, incarnation, until)
		values ($1, $2, {}.clock() + $3::bigint * interval '1 microsecond')
		on conflict (name) do update
			set incarnation = excluded.incarnation, until = excluded.until, given_up = false
		where p.incarnation <= excluded.incarnation
		returning xmax = 0`), p.Name, id(p), d.Microseconds()).Scan(&begun)
	if errors.Is(err, pgx.ErrNoRows) {
		err = session.ErrReplaced
	}
	return begun, err
}

// Beat begins or renews the lease of p, and returns the claims that others have taken from it, but
// for those of these epochs, of which p has said that it knows.
func (l ledger) Beat(
	ctx context.Context, p session.Process, d time.Duration, known []uint64,
) (taken []session.Claim, begun bool, err error) {
	err = l.change(ctx, func(ctx context.Context, q querier) (err error) {
		if begun, err = l.renew(ctx, q, p, d); err != nil {
			return err
		}
		_, err = q.Exec(ctx, l.sql(`
			delete from {}.taken where incarnation = $1 and epoch = any($2)`),
			id(p), signed(known))
		if err != nil {
			return err
		}
		rows, err := q.Query(ctx, l.sql(`
			select root, epoch from {}.taken where incarnation = $1 order by epoch`), id(p))
		if err != nil {
			return err
		}
		taken, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (session.Claim, error) {
			return scanClaim(row, p)
		})
		return err
	})
	// What another program has written here, and is not the name of a tree, was not claimed.
	taken = slices.DeleteFunc(taken, func(c session.Claim) bool { return c.Root.IsZero() })
	return taken, begun, err
}

// signed returns epochs as the server has them.
func signed(epochs []uint64) []int64 {
	s := make([]int64, len(epochs))
	for i, e := range epochs {
		s[i] = int64(e) //nolint:gosec // the server has given it out
	}
	return s
}

// scanClaim reads the root and the epoch of a claim of p. The claim is zero if the root is not one.
func scanClaim(row pgx.CollectableRow, p session.Process) (session.Claim, error) {
	var root string
	var epoch int64
	if err := row.Scan(&root, &epoch); err != nil {
		return session.Claim{}, err
	}
	c, err := newClaim(root, epoch, p)
	if errors.Is(err, session.ErrCorrupt) {
		err = nil
	}
	return c, err
}

// newClaim returns the claim of p that a row has.
func newClaim(root string, epoch int64, p session.Process) (session.Claim, error) {
	key, err := session.ParseRoot(root)
	if err != nil {
		return session.Claim{}, &session.CorruptError{
			File: fmt.Sprintf("table logs, root %.80q", root), Reason: err.Error(),
		}
	}
	return session.Claim{Root: key, Owner: p, Epoch: uint64(epoch)}, nil //nolint:gosec // from 1
}

// Claim takes a tree for p. It renews the lease of p first, or only where that has lapsed, and
// reports whether it has begun one.
func (l ledger) Claim(
	ctx context.Context, p session.Process, d time.Duration, root session.Key, renew bool,
) (c session.Claim, begun bool, err error) {
	for range maxAttempts {
		if renew {
			var first bool
			err = l.write(ctx, func(ctx context.Context, q querier) (err error) {
				first, err = l.renew(ctx, q, p, d)
				return err
			})
			if err != nil {
				return c, begun, err
			}
			begun = begun || first
		}
		if c, err = l.claimFree(ctx, p, root); err != nil || c.Epoch > 0 {
			return c, begun, err
		}
		err = l.change(ctx, func(ctx context.Context, q querier) error {
			c, err = l.claimOwned(ctx, q, p, root)
			return err
		})
		if !errors.Is(err, cluster.ErrLapsed) && !errors.Is(err, errMoved) {
			return c, begun, err
		}
		renew = errors.Is(err, cluster.ErrLapsed)
	}
	return c, begun, err
}

// claimFree takes a tree for p on which there is no claim, in one statement. It returns the zero
// Claim if there is one, or if p has no lease.
func (l ledger) claimFree(
	ctx context.Context, p session.Process, root session.Key,
) (c session.Claim, err error) {
	err = l.write(ctx, func(ctx context.Context, q querier) error {
		var epoch int64
		err := q.QueryRow(ctx, l.sql(`
			insert into {}.logs as l (root, last, owner, epoch)
			select $1::text, 0, incarnation, nextval('{}.epochs') from {}.processes
			where name = $2 and incarnation = $3 and until > {}.clock()
			on conflict (root) do update set owner = excluded.owner, epoch = excluded.epoch
			where l.owner is null
			returning epoch`), root.String(), p.Name, id(p)).Scan(&epoch)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err == nil {
			c = session.Claim{Root: root, Owner: p, Epoch: uint64(epoch)} //nolint:gosec // from 1
		}
		return err
	})
	return c, err
}

// claimOwned decides about a tree on which there is a claim. The error is cluster.ErrLapsed if p
// has no lease, and errMoved if there is no claim any more.
func (l ledger) claimOwned(
	ctx context.Context, q querier, p session.Process, root session.Key,
) (c session.Claim, err error) {
	if err = l.isJoined(ctx, q, p); err != nil {
		return c, err
	}
	var owner, epoch *int64
	err = q.QueryRow(ctx, l.sql(`select owner, epoch from {}.logs where root = $1 for update`),
		root.String()).Scan(&owner, &epoch)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && (owner == nil || epoch == nil):
		return c, errMoved
	case err != nil:
		return c, err
	case *owner == id(p):
		return newClaim(root.String(), *epoch, p)
	}
	former, left, err := l.former(ctx, q, *owner)
	switch {
	case errors.Is(err, session.ErrOwned):
		c, err = newClaim(root.String(), *epoch, former)
		if err == nil {
			err = &session.OwnedError{Claim: c}
		}
		return session.Claim{}, err
	case err != nil:
		return c, err
	case !left:
		_, err = q.Exec(ctx, l.sql(`
			insert into {}.taken (incarnation, epoch, root) values ($1, $2, $3)`),
			*owner, *epoch, root.String())
		if err != nil {
			return c, err
		}
	}
	err = q.QueryRow(ctx, l.sql(`
		update {}.logs set owner = $2, epoch = nextval('{}.epochs') where root = $1
		returning epoch`), root.String(), id(p)).Scan(&epoch)
	if err != nil {
		return c, err
	}
	return newClaim(root.String(), *epoch, p)
}

// isJoined returns nil if p has a lease, and else cluster.ErrLapsed or ErrReplaced.
func (l ledger) isJoined(ctx context.Context, q querier, p session.Process) error {
	var incarnation int64
	var lives bool
	err := q.QueryRow(ctx, l.sql(`
		select incarnation, until > {}.clock() from {}.processes where name = $1`), p.Name).
		Scan(&incarnation, &lives)
	switch {
	case err == nil && incarnation > id(p):
		return session.ErrReplaced
	case errors.Is(err, pgx.ErrNoRows), err == nil && (incarnation < id(p) || !lives):
		return cluster.ErrLapsed
	}
	return err
}

// former returns the process with an incarnation, whose lease has lapsed and does not begin again
// before the transaction ends. It also reports whether that process has left, or is replaced, so
// that there is no need to tell it. The error is ErrOwned if the lease lasts.
func (l ledger) former(
	ctx context.Context, q querier, incarnation int64,
) (p session.Process, left bool, err error) {
	p.Incarnation = uint64(incarnation) //nolint:gosec // from 1
	// The first look takes no lock, so that claims which are refused do not hold up the beat.
	for _, lock := range []string{``, ` for share`} {
		var lives bool
		err = q.QueryRow(ctx, l.sql(`
			select name, until > {}.clock(), given_up from {}.processes
			where incarnation = $1`+lock), incarnation).Scan(&p.Name, &lives, &left)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return p, true, nil
		case err == nil && lives:
			return p, false, session.ErrOwned
		case err != nil:
			return p, false, err
		}
	}
	return p, left, nil
}

// Release gives a claim of p up, unless it is another one now.
func (l ledger) Release(ctx context.Context, p session.Process, c session.Claim) error {
	if c.Owner != p {
		return l.check(ctx)
	}
	return l.giveUp(ctx, `root = $1 and owner = $2 and epoch = $3`,
		c.Root.String(), id(p), int64(c.Epoch)) //nolint:gosec // see signed
}

// giveUp gives up the claims that a condition selects. The row of a tree that has no log goes.
func (l ledger) giveUp(ctx context.Context, condition string, args ...any) error {
	for _, statement := range []string{
		`delete from {}.logs where last = 0 and `,
		`update {}.logs set owner = null, epoch = null where `,
	} {
		err := l.write(ctx, func(ctx context.Context, q querier) error {
			_, err := q.Exec(ctx, l.sql(statement+condition), args...)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Leave ends the lease of p and gives up its claims. For good means that p cannot join again.
func (l ledger) Leave(ctx context.Context, p session.Process, forGood bool) error {
	next := `incarnation`
	if forGood {
		next = `nextval('{}.incarnations')`
	}
	err := l.write(ctx, func(ctx context.Context, q querier) error {
		_, err := q.Exec(ctx, l.sql(`
			update {}.processes
			set until = least(until, {}.clock()), given_up = true, incarnation = `+next+`
			where name = $1 and incarnation = $2`), p.Name, id(p))
		return err
	})
	if err == nil {
		err = l.giveUp(ctx, `owner = $1`, id(p))
	}
	if err != nil {
		return err
	}
	return l.write(ctx, func(ctx context.Context, q querier) error {
		_, err := q.Exec(ctx, l.sql(`delete from {}.taken where incarnation = $1`), id(p))
		return err
	})
}

// maxOrphans is how many orphans one look finds at most, those that have been due longest. Tests
// have fewer.
var maxOrphans = 4096

// Orphans returns the trees that are due and on which no claim holds, and the present time. The
// cost does not depend on the trees that have an owner: the free ones have an index, and those of
// processes that are gone are found by a jump from owner to owner. It does on those that are
// skipped, and on those that are due at the same time, of which the root is the order.
func (l ledger) Orphans(
	ctx context.Context, skip int,
) (roots []session.Key, behind int, now time.Time, err error) {
	err = l.read(ctx, func(ctx context.Context, q querier) error {
		if err := q.QueryRow(ctx, l.sql(`select {}.clock()`)).Scan(&now); err != nil {
			return err
		}
		rows, err := q.Query(ctx, l.sql(`
			with recursive `+ownersOfTrees+`, gone as (
				select o.owner from owners as o
				where o.owner is not null and not `+alive(`o.owner`)+`
			)
			select root from (
				(select root, due_sec, due_nsec from {}.logs
				where owner is null and due_sec is not null and (due_sec, due_nsec) <= ($1, $2)
				order by due_sec, due_nsec, root limit $3)
				union all
				(select l.root, l.due_sec, l.due_nsec from gone as g, lateral (
					select root, due_sec, due_nsec from {}.logs
					where owner = g.owner and (due_sec, due_nsec) <= ($1, $2)
					order by due_sec, due_nsec, root limit $3
				) as l)
			) as due order by due_sec, due_nsec, root limit $3 offset $4`),
			now.Unix(), now.Nanosecond(), skip+maxOrphans+1, skip)
		if err != nil {
			return err
		}
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		behind = 0
		if len(texts) > maxOrphans {
			texts, behind = texts[:maxOrphans], skip+maxOrphans
		}
		roots = make([]session.Key, 0, len(texts))
		for _, text := range texts {
			// The log of a reserved root has no owner, and a row that is damaged hides none.
			if root, err := session.ParseRoot(text); err == nil && root.IsValid() {
				roots = append(roots, root)
			}
		}
		return err
	})
	return roots, behind, now, err
}

// memory is session.RequestMemory as the server takes it, in microseconds.
var memory = session.RequestMemory.Microseconds()

// forgotten is the condition that a request is known no more.
var forgotten = `asked <= {}.clock() - $1::bigint * interval '1 microsecond'
	and (answered or not ` + alive(`taker`) + `)`

// Ask records a request, unless its ID is known: then it counts as the same one. It returns the
// incarnation that has a claim on the tree, 0 for none.
func (l ledger) Ask(ctx context.Context, r session.Request) (owner uint64, err error) {
	var n int64
	err = l.bodies.change(ctx, func(ctx context.Context, q querier) error {
		_, err := q.Exec(ctx, l.sql(`delete from {}.requests where `+forgotten+` and id = $2`),
			memory, []byte(r.ID))
		if err != nil {
			return err
		}
		err = q.QueryRow(ctx, l.sql(`
			insert into {}.requests as r (id, root, body, asked) values ($1, $2, $3, {}.clock())
			on conflict (id) do update
				set asked = case when r.answered then r.asked else excluded.asked end
			where r.root = excluded.root
			returning coalesce((select l.owner from {}.logs as l where l.root = r.root), 0)`),
			[]byte(r.ID), r.Root.String(), noNil(r.Body)).Scan(&n)
		if errors.Is(err, pgx.ErrNoRows) {
			err = fmt.Errorf("%w %q: its id is that of a request to another tree",
				session.ErrInvalidRequest, r.ID)
		}
		return err
	})
	return uint64(n), err //nolint:gosec // from 1
}

// Take returns the requests that p is to handle from now on: those to its trees that no process has
// taken, or whose taker is gone. Those that p has taken without knowing, because the answer of the
// server was lost, are among them; known are the IDs that p knows. One that is longer than an
// Owners asks for was written by another program, and is left alone.
func (l ledger) Take(
	ctx context.Context, p session.Process, known []string,
) (taken []session.Request, err error) {
	err = l.bodies.write(ctx, func(ctx context.Context, q querier) error {
		rows, err := q.Query(ctx, l.sql(`
			update {}.requests as r set taker = $1, attempt = attempt + 1
			where not answered and octet_length(body) <= $3 and (taker is null or not `+alive(`r.taker`)+`
				or taker = $1 and id <> all($2::bytea[]))
				and (select l.owner from {}.logs as l where l.root = r.root) = $1
				and `+alive(`$1::bigint`)+`
			returning id, root, body, attempt`), id(p), bytesOf(known), session.RequestLimit)
		if err != nil {
			return err
		}
		taken, err = pgx.CollectRows(rows, scanRequest)
		return err
	})
	slices.SortFunc(taken, func(a, b session.Request) int {
		return strings.Compare(a.ID, b.ID)
	})
	return taken, err
}

// bytesOf returns texts as the server takes them, which may have any byte.
func bytesOf(texts []string) [][]byte {
	all := make([][]byte, len(texts))
	for i, text := range texts {
		all[i] = []byte(text)
	}
	return all
}

// scanRequest reads a request.
func scanRequest(row pgx.CollectableRow) (r session.Request, err error) {
	var id []byte
	var root string
	if err = row.Scan(&id, &root, &r.Body, &r.Attempt); err == nil {
		r.ID = string(id)
		r.Root, err = session.ParseRoot(root)
	}
	return r, err
}

// Answer records the answer of p to a request. It is dropped if another process has taken the
// request since.
func (l ledger) Answer(
	ctx context.Context, p session.Process, request string, answer []byte,
) error {
	return l.bodies.write(ctx, func(ctx context.Context, q querier) error {
		_, err := q.Exec(ctx, l.sql(`
			update {}.requests set answered = true, answer = $3, asked = {}.clock(), body = ''
			where id = $1 and taker = $2 and not answered`), []byte(request), id(p), answer)
		return err
	})
}

// Outcome returns the answer to a request, or an error if there will be none. It is not done while
// the caller is to wait.
func (l ledger) Outcome(ctx context.Context, id string) (answer []byte, done bool, err error) {
	err = l.bodies.write(ctx, func(ctx context.Context, q querier) error {
		var answered, taken, under, owned bool
		err := q.QueryRow(ctx, l.sql(`
			select answered, answer, taker is not null, `+alive(`r.taker`)+`,
				exists (select from {}.logs as l where l.root = r.root and `+alive(`l.owner`)+`)
			from {}.requests as r where id = $1`), []byte(id)).
			Scan(&answered, &answer, &taken, &under, &owned)
		switch {
		case errors.Is(err, pgx.ErrNoRows): // another call has found that there is no owner
			return session.ErrNoOwner
		case err != nil:
			return err
		case answered || under || owned:
			done = answered
			return nil
		case taken:
			return session.ErrUnanswered
		}
		// Once it is gone no process handles it. One that was taken meanwhile stays.
		tag, err := q.Exec(ctx, l.sql(`delete from {}.requests where id = $1 and taker is null`),
			[]byte(id))
		if err == nil && tag.RowsAffected() > 0 {
			err = session.ErrNoOwner
		}
		return err
	})
	return answer, done || err != nil, err
}

// Lanes returns the documents of the lanes whose version is another one than that which is known.
func (l ledger) Lanes(
	ctx context.Context, known map[string]int64,
) (changed map[string]cluster.LaneView, now time.Time, err error) {
	var names [][]byte
	var versions []int64
	for name, version := range known {
		names, versions = append(names, []byte(name)), append(versions, version)
	}
	changed = make(map[string]cluster.LaneView)
	err = l.read(ctx, func(ctx context.Context, q querier) error {
		rows, err := q.Query(ctx, l.sql(`
			select l.name, l.version, l.doc, {}.clock()
			from unnest($1::bytea[], $2::bigint[]) as known (name, version)
			join {}.lanes as l on l.name = known.name and l.version <> known.version`),
			names, versions)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name, doc []byte
			var view cluster.LaneView
			if err := rows.Scan(&name, &view.Version, &doc, &now); err != nil {
				return err
			}
			if view.Doc, err = decodeLane(name, doc); err != nil {
				return err
			}
			changed[string(name)] = view
		}
		return rows.Err()
	})
	return changed, now, err
}

// ChangeLane calls f with the document of a lane, under its lock, and writes it if f reports a
// change. It does nothing and returns cluster.ErrLapsed if p has no lease. f may be called again.
//
// All processes wait for that lock, and each turn of a sub-agent needs it twice. So the transaction
// takes two round trips to the server, and not one for each of its five statements.
func (l ledger) ChangeLane(
	ctx context.Context, p session.Process, name string,
	f func(doc *lease.Lane, now time.Time, alive func(session.Process) bool) (changed bool),
) (view cluster.LaneView, now time.Time, changed bool, err error) {
	try := func(ctx context.Context) error {
		return l.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			var alive map[session.Process]bool
			view, now, alive, err = l.lockLane(ctx, conn, name)
			if err == nil && !alive[p] {
				err = cluster.ErrLapsed
			}
			if changed = err == nil &&
				f(&view.Doc, now, func(p session.Process) bool { return alive[p] }); changed {
				view.Version++
				err = l.commitLane(ctx, conn, name, view)
			} else if conn.Conn().PgConn().TxStatus() == inTransaction {
				_, failed := conn.Exec(ctx, `rollback`)
				err = cmp.Or(err, failed)
			}
			return err // a connection that is in a transaction is closed, which ends that
		})
	}
	err = l.attempt(ctx, func(ctx context.Context) error {
		for range maxAttempts {
			if err := l.hold.check(ctx); err != nil {
				return err
			}
			if err := try(ctx); !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			_, err := l.pool.Exec(ctx, l.sql(`
				insert into {}.lanes (name) values ($1) on conflict (name) do nothing`), []byte(name))
			if err != nil {
				return err
			}
		}
		return errMoved
	})
	return view, now, changed, err
}

// inTransaction is the state of a connection with a transaction that can go on.
const inTransaction = 'T'

// lockLane begins a transaction that has the lock of a lane. It returns the document, the present
// time and the processes that have a lease then, which is after the lock was taken: each is a
// statement of its own. The error is pgx.ErrNoRows if the lane has no row yet.
func (l ledger) lockLane(
	ctx context.Context, conn *pgxpool.Conn, name string,
) (view cluster.LaneView, now time.Time, alive map[session.Process]bool, err error) {
	var b pgx.Batch
	b.Queue(`begin isolation level read committed read write`)
	b.Queue(fmt.Sprintf(`set local idle_in_transaction_session_timeout = %d`, l.idle.Milliseconds()))
	var doc []byte
	b.Queue(l.sql(`select version, doc from {}.lanes where name = $1 for update`), []byte(name)).
		QueryRow(func(row pgx.Row) error { return row.Scan(&view.Version, &doc) })
	alive = make(map[session.Process]bool)
	b.Queue(l.sql(`
		select name, incarnation, c.now from (select {}.clock() as now) as c, {}.processes
		where until > c.now and incarnation > 0`)).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var p session.Process
				if err := rows.Scan(&p.Name, &p.Incarnation, &now); err != nil {
					return err
				}
				alive[p] = true
			}
			return rows.Err()
		})
	if err = conn.SendBatch(ctx, &b).Close(); err == nil {
		view.Doc, err = decodeLane([]byte(name), doc)
	}
	return view, now, alive, err
}

// commitLane writes the document of a lane, and ends the transaction that lockLane has begun.
func (l ledger) commitLane(
	ctx context.Context, conn *pgxpool.Conn, name string, view cluster.LaneView,
) error {
	doc, err := json.Marshal(view.Doc)
	if err != nil {
		return err
	}
	var b pgx.Batch
	b.Queue(l.sql(`update {}.lanes set version = $2, doc = $3 where name = $1`),
		[]byte(name), view.Version, doc)
	b.Queue(`commit`)
	return conn.SendBatch(ctx, &b).Close()
}

// decodeLane returns the document of a lane. Empty is the lane that was not changed yet.
func decodeLane(name, doc []byte) (lane lease.Lane, err error) {
	if len(doc) == 0 {
		return lane, nil
	}
	if err = json.Unmarshal(doc, &lane); err != nil {
		err = &session.CorruptError{
			File: fmt.Sprintf("table lanes, lane %.80q", name), Reason: err.Error(),
		}
	}
	return lane, err
}

// goneAfter is after which time a process is forgotten whose lease has lapsed.
const goneAfter = `interval '1 day'`

// ownersOfTrees has the incarnations that have a claim, in so many steps as there are.
const ownersOfTrees = `owners (owner) as (
	select min(owner) from {}.logs
	union all
	select (select min(owner) from {}.logs where owner > o.owner)
	from owners as o where o.owner is not null
)`

// Sweep forgets the requests that are too old, the claims of processes that were replaced, and the
// processes that are gone for long. One of them that comes back after all begins anew, without its
// claims. Of several sweeps at a time one does the work.
func (l ledger) Sweep(ctx context.Context) error {
	return l.change(ctx, func(ctx context.Context, q querier) error {
		var alone bool
		err := q.QueryRow(ctx, `select pg_try_advisory_xact_lock(hashtextextended($1, 3))`,
			lockName(l.schema)).Scan(&alone)
		if err != nil || !alone {
			return err
		}
		_, err = q.Exec(ctx, l.sql(`delete from {}.requests where `+forgotten), memory)
		if err != nil {
			return err
		}
		gone, err := incarnations(ctx, q, l.sql(`
			select incarnation from {}.processes where until <= {}.clock() - `+goneAfter))
		if err != nil {
			return err
		}
		// First which, so that the usual sweep, which finds none, reads no trees.
		swept, err := incarnations(ctx, q, l.sql(`
			with recursive `+ownersOfTrees+`
			select o.owner from owners as o where o.owner is not null and (o.owner = any($1)
				or not exists (select from {}.processes as p where p.incarnation = o.owner))`), gone)
		if err != nil {
			return err
		}
		for _, s := range []struct {
			text  string
			which []int64
		}{
			{`delete from {}.logs where last = 0 and owner = any($1)`, swept},
			{`update {}.logs set owner = null, epoch = null where owner = any($1)`, swept},
			{`delete from {}.taken as t where incarnation = any($1) or not exists (
				select from {}.processes as p where p.incarnation = t.incarnation)`, gone},
		} {
			if _, err = q.Exec(ctx, l.sql(s.text), s.which); err != nil {
				return err
			}
		}
		tag, err := q.Exec(ctx, l.sql(`
			delete from {}.processes where incarnation = any($1)
				and until <= {}.clock() - `+goneAfter), gone)
		if err == nil && tag.RowsAffected() < int64(len(gone)) {
			err = errMoved // one has come back, and has its claims
		}
		return err
	})
}

// incarnations returns what a statement selects, which are incarnations.
func incarnations(ctx context.Context, q querier, sql string, args ...any) ([]int64, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	return noNil(found), err
}
