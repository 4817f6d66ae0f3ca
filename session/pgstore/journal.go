package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/remote"
)

// maxBatchBytes is the most that the entries of a batch take: four times [session.BatchLimit], and
// a quarter of what PostgreSQL keeps in one value.
const maxBatchBytes = 4 * session.BatchLimit

// A page is what one statement reads at most: so many rows, of so many bytes, but always a row.
const (
	pageRows  = 512
	pageBytes = 4 << 20
)

// A journal is the [session.Journal] of a schema.
type journal struct{ *database }

// Close closes the Store. Each of its parts may be closed.
func (j journal) Close() error {
	j.close()
	return nil
}

// Health asks the server whether it is there, whether the schema is still held, and if it has
// refused to write something, whether it takes something now.
func (j journal) Health(ctx context.Context) error {
	err := j.attempt(ctx, func(ctx context.Context) error {
		if err := j.pool.Ping(ctx); err != nil { // the lock would say the same
			return err
		}
		return j.hold.check(ctx)
	})
	if err == nil {
		err = j.probe(ctx)
	}
	if err == nil && j.members != nil {
		err = j.members.Health()
	}
	if err != nil {
		return fmt.Errorf("pgstore: health: %w", err)
	}
	return nil
}

// encode returns the entries of a batch, one a line.
func encode(b session.Batch) (entries []byte, err error) {
	entries, over, err := remote.AppendEntries(nil, b, maxBatchBytes)
	switch {
	case err != nil:
		return nil, err //nolint:wrapcheck // its text is whole
	case over > 0:
		return nil, &BatchSizeError{b.ID, over, len(entries), maxBatchBytes}
	}
	return entries, nil
}

// An addition is a batch as it is written.
type addition struct {
	root        string
	after, last int64
	first       int64 // the sequence of the first entry
	id, entries []byte
	dueSec      *int64
	dueNsec     *int32
	members     []string
	reset       bool
	fence       *int64 // see owners.fence
}

// newAddition returns a batch as it is written, or an error that is [session.ErrInvalidBatch] or
// [session.ErrInvalidKey].
func newAddition(
	root session.Key, after, first session.Seq, b session.Batch,
) (a addition, err error) {
	if root.IsZero() {
		return a, fmt.Errorf("root %q: %w", root, session.ErrInvalidKey)
	}
	if err := b.Validate(); err != nil {
		return a, err
	}
	if first > math.MaxInt64-session.Seq(len(b.Entries)) {
		return a, session.ErrConflict // no log ends there
	}
	a = addition{
		root: root.String(), after: int64(after), first: int64(first),
		last: int64(first) + int64(len(b.Entries)) - 1, id: []byte(b.ID), reset: b.Reset,
	}
	if a.id == nil {
		a.id = []byte{}
	}
	if !b.Due.IsZero() {
		sec, nsec := b.Due.Unix(), int32(b.Due.Nanosecond())
		a.dueSec, a.dueNsec = &sec, &nsec
	}
	for _, key := range b.Members {
		a.members = append(a.members, key.String())
	}
	a.entries, err = encode(b)
	return a, err
}

func (j journal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	return j.append(ctx, root, after, after+1, b)
}

// Import implements [session.JournalImporter].
func (j journal) Import(
	ctx context.Context, root session.Key, after, first session.Seq, b session.Batch,
) (session.Seq, error) {
	if err := b.ValidateImport(after, first); err != nil {
		return 0, fmt.Errorf("pgstore: import to %q: %w", root, err)
	}
	return j.append(ctx, root, after, first, b)
}

// append appends a batch whose entries have the sequences from first on.
func (j journal) append(
	ctx context.Context, root session.Key, after, first session.Seq, b session.Batch,
) (session.Seq, error) {
	a, err := newAddition(root, after, first, b)
	a.fence = j.members.fence(root)
	switch {
	case err != nil:
	case a.reset:
		err = j.change(ctx, func(ctx context.Context, q querier) error {
			return j.replace(ctx, q, a)
		})
	default:
		err = j.write(ctx, func(ctx context.Context, q querier) error { return j.add(ctx, q, a) })
	}
	if err != nil {
		return 0, fmt.Errorf("pgstore: append to %q after %d: %w", root, after, err)
	}
	return session.Seq(a.last), nil
}

// isOurTree is the condition that the claim of this process was not taken, if it appends under one.
// It is looked at in the row that the statement has locked: a claim is taken there, too.
func isOurTree(fence string) string {
	return `(` + fence + `::bigint is null or l.owner is null or l.owner = ` + fence + `
		or not ` + alive(`l.owner`) + `)`
}

// The statement that adds a batch consists of one that changes the row of the log, and so waits for
// every other that does, and of those that use its number. A log that has moved changes no row, and
// neither does one whose tree was taken from this process.
var (
	beginLog = `
		with log as (
			insert into {}.logs as l (root, last, base, kept, due_sec, due_nsec)
			select $1::text, $3::bigint, $10::bigint, $10::bigint, $6::bigint, $7::integer
			where $2::bigint = 0
			on conflict (root) do update
				set last = excluded.last, base = excluded.base, kept = excluded.kept,
					due_sec = excluded.due_sec, due_nsec = excluded.due_nsec
			where l.last = 0 and ` + isOurTree(`$9`) + `
			returning id
		), `
	extendLog = `
		with log as (
			update {}.logs as l set last = $3::bigint, due_sec = $6::bigint, due_nsec = $7::integer
			where root = $1::text and last = $2::bigint and ` + isOurTree(`$9`) + `
			returning id
		), `
)

const addBatch = `
		brought as (
			insert into {}.members (key, log)
			select distinct k, log.id from log, unnest($8::text[]) as k
			on conflict do nothing
		)
		insert into {}.batches (log, first, last, id, size, entries)
		select id, $10::bigint, $3::bigint, $4::bytea, octet_length($5::bytea), $5::bytea from log`

// add adds a batch that follows the last one.
func (j journal) add(ctx context.Context, q querier, a addition) error {
	head := extendLog
	if a.after == 0 {
		head = beginLog
	}
	tag, err := q.Exec(ctx, j.sql(head+addBatch),
		a.root, a.after, a.last, a.id, a.entries, a.dueSec, a.dueNsec, a.members, a.fence,
		a.first)
	if err == nil && tag.RowsAffected() == 0 {
		err = session.ErrConflict
	}
	return err
}

// replace adds a batch whose first entry is a snapshot. What the snapshot before this one has
// replaced goes for good: only a reader that has seen two of them misses it.
func (j journal) replace(ctx context.Context, q querier, a addition) error {
	var id, base int64
	err := q.QueryRow(ctx, j.sql(`
		select id, base from {}.logs as l where root = $1 and last = $2 and `+isOurTree(`$3`)+`
		for update`), a.root, a.after, a.fence).Scan(&id, &base)
	if errors.Is(err, pgx.ErrNoRows) && a.after == 0 {
		id, base = 0, 1
		err = q.QueryRow(ctx, j.sql(`
			insert into {}.logs (root, last) values ($1, 0) on conflict (root) do nothing
			returning id`), a.root).Scan(&id)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return session.ErrConflict
	}
	if err != nil {
		return err
	}
	for _, s := range []struct {
		text string
		args []any
	}{
		{`delete from {}.batches where log = $1 and last < $2`, []any{id, base}},
		{`delete from {}.members where log = $1 and key <> all ($2::text[])`, []any{id, noNil(a.members)}},
		{`insert into {}.members (key, log) select distinct k, $1::bigint from unnest($2::text[]) as k
			on conflict do nothing`, []any{id, a.members}},
		{
			`insert into {}.batches (log, first, last, id, size, entries)
			values ($1, $2, $3, $4, octet_length($5::bytea), $5)`,
			[]any{id, a.first, a.last, a.id, a.entries},
		},
		{`update {}.logs set last = $2, base = $3, kept = $4, due_sec = $5, due_nsec = $6
			where id = $1`, []any{id, a.last, a.first, base, a.dueSec, a.dueNsec}},
	} {
		if _, err := q.Exec(ctx, j.sql(s.text), s.args...); err != nil {
			return err
		}
	}
	return nil
}

// noNil returns s, or an empty slice for nil, which would be the null of SQL.
func noNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// A reading is a log that is read, page by page. It ends where the log ended when it began.
type reading struct {
	id, last int64
	pos      int64 // up to which entries are yielded, or not wanted
}

// A storedBatch is a batch as it is read.
type storedBatch struct {
	first, last int64
	id          []byte
	entries     []byte
}

func (j journal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		fail := func(err error) {
			yield(session.Entry{}, fmt.Errorf("pgstore: read %q: %w", root, err))
		}
		r, err := j.begin(ctx, root, after)
		for err == nil && r.pos < r.last {
			var page []storedBatch
			if page, err = j.page(ctx, r); err != nil {
				break
			}
			for _, b := range page {
				var entries [][]byte
				if entries, err = r.take(b); err != nil {
					fail(err)
					return
				}
				for i, entry := range entries {
					r.pos = b.last - int64(len(entries)-1-i)
					e := session.Entry{Seq: session.Seq(r.pos), Batch: session.BatchID(b.id)}
					e.Payload = session.Raw(entry)
					if !yield(e, nil) {
						return
					}
				}
			}
			err = j.check(ctx)
		}
		if err != nil {
			fail(err)
		}
	}
}

// begin looks where a log begins and ends. The row of the log and its batches must agree: one that
// says that there is less would hide entries.
func (j journal) begin(
	ctx context.Context, root session.Key, after session.Seq,
) (r reading, err error) {
	var base, first, last int64 // by the row, and by the batches
	err = j.read(ctx, func(ctx context.Context, q querier) error {
		err := q.QueryRow(ctx, j.sql(`
			select id, last, base,
				coalesce((select max(b.last) from {}.batches as b where b.log = l.id), 0),
				coalesce((select b.first from {}.batches as b
					where b.log = l.id and b.last >= l.base order by b.last limit 1), l.base)
			from {}.logs as l where root = $1`), root.String()).
			Scan(&r.id, &r.last, &base, &last, &first)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	switch {
	case err != nil:
	case r.last != last:
		err = r.contradicts("last", r.last, "the batches end at", last)
	case base != first || last > 0 && base > last:
		err = r.contradicts("base", base, "the batches with it begin at", first)
	}
	r.pos = max(base-1, int64(min(after, math.MaxInt64)))
	return r, err
}

// contradicts returns the error of a column of a log that does not agree with its batches.
func (r *reading) contradicts(column string, is int64, but string, want int64) error {
	return &session.CorruptError{
		File:   fmt.Sprintf("table logs, log %d, column %s", r.id, column),
		Reason: fmt.Sprintf("it is %d, and %s %d", is, but, want),
	}
}

// page reads the next batches of a log.
func (j journal) page(ctx context.Context, r reading) (page []storedBatch, err error) {
	err = j.read(ctx, func(ctx context.Context, q querier) error {
		rows, err := q.Query(ctx, j.sql(`
			select first, last, id, entries from (
				select *, sum(size::bigint) over (order by last) - size as before from (
					select * from {}.batches where log = $1 and last > $2 and last <= $3
					order by last limit $4
				) as page
			) as sized
			where before < $5 order by last`), r.id, r.pos, r.last, pageRows, pageBytes)
		if err != nil {
			return err
		}
		page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b storedBatch, err error) {
			return b, row.Scan(&b.first, &b.last, &b.id, &b.entries)
		})
		return err
	})
	if err != nil || len(page) > 0 && page[0].first <= r.pos+1 {
		return page, err
	}
	return nil, j.missing(ctx, r)
}

// missing returns why the batch behind r.pos is not there: it was replaced meanwhile, or is lost.
func (j journal) missing(ctx context.Context, r reading) error {
	var kept int64
	err := j.read(ctx, func(ctx context.Context, q querier) error {
		return q.QueryRow(ctx, j.sql(`select kept from {}.logs where id = $1`), r.id).Scan(&kept)
	})
	switch {
	case err != nil:
		return err
	case kept > r.pos+1:
		return errReplaced
	}
	return r.corrupt("the batch is missing")
}

// corrupt returns the error of a log that is damaged behind r.pos.
func (r *reading) corrupt(reason string) error {
	return &session.CorruptError{
		File: fmt.Sprintf("table batches, log %d", r.id), Offset: r.pos + 1, Reason: reason,
	}
}

// take returns the entries of b that are behind r.pos.
func (r *reading) take(b storedBatch) ([][]byte, error) {
	entries := bytes.Split(b.entries, []byte{'\n'})
	switch {
	case b.first > r.pos+1:
		return nil, r.corrupt("the batch is missing")
	case int64(len(entries)) != b.last-b.first+1:
		return nil, r.corrupt(fmt.Sprintf("the batch has %d entries, want %d",
			len(entries), b.last-b.first+1))
	}
	return entries[r.pos+1-b.first:], nil
}

func (j journal) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	return pages("roots", func(from int64) ([]session.Head, int64, error) {
		return j.heads(ctx, q, from)
	}, func() error { return j.check(ctx) })
}

// pages yields what comes page by page. A page is that of what stands behind a number, from 0, and
// says behind which number there are more, -1 for none. An error of a page, or of check before an
// item, is the last that comes, and says what was looked for. A nil check finds nothing.
func pages[T any](
	what string, page func(from int64) (items []T, next int64, err error), check func() error,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		fail := func(err error) {
			var none T
			yield(none, fmt.Errorf("pgstore: %s: %w", what, err))
		}
		for from := int64(0); from >= 0; {
			items, next, err := page(from)
			if err != nil {
				fail(err)
				return
			}
			for _, item := range items {
				if check != nil {
					if err := check(); err != nil {
						fail(err)
						return
					}
				}
				if !yield(item, nil) {
					return
				}
			}
			from = next
		}
	}
}

// heads returns the logs that q selects and the number behind which there are more, -1 for none.
// What selects by time or member is one answer of the server, since logs move in time.
func (j journal) heads(
	ctx context.Context, q session.RootQuery, from int64,
) (heads []session.Head, next int64, err error) {
	statement, args := `select id, root, last, due_sec, due_nsec from {}.logs as l where last > 0`, []any{}
	where := func(condition string, values ...any) {
		places := make([]any, len(values))
		for i := range values {
			places[i] = len(args) + i + 1
		}
		statement += " and " + fmt.Sprintf(condition, places...)
		args = append(args, values...)
	}
	if !q.Member.IsZero() {
		where(`exists (select from {}.members where key = $%d and log = l.id)`, q.Member.String())
	}
	if !q.DueBefore.IsZero() {
		where(`due_sec is not null and (due_sec, due_nsec) < ($%d, $%d)`,
			q.DueBefore.Unix(), q.DueBefore.Nanosecond())
	}
	paged := q == session.RootQuery{}
	if paged {
		where(`id > $%d order by id limit `+fmt.Sprint(pageRows), from)
	}
	next = -1
	err = j.read(ctx, func(ctx context.Context, db querier) error {
		rows, err := db.Query(ctx, j.sql(statement), args...)
		if err != nil {
			return err
		}
		heads, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (session.Head, error) {
			id, h, err := scanHead(row)
			if err == nil && paged {
				next = id
			}
			return h, err
		})
		return err
	})
	if len(heads) < pageRows {
		next = -1
	}
	return heads, next, err
}

// scanHead reads a row of heads.
func scanHead(row pgx.CollectableRow) (id int64, h session.Head, err error) {
	var root string
	var last int64
	var sec, nsec *int64
	if err = row.Scan(&id, &root, &last, &sec, &nsec); err != nil {
		return 0, h, err
	}
	h.Last = session.Seq(last)
	if h.Root, err = session.ParseRoot(root); err != nil {
		return 0, h, &session.CorruptError{
			File: fmt.Sprintf("table logs, log %d", id), Reason: err.Error(),
		}
	}
	if sec != nil && nsec != nil {
		h.Due = time.Unix(*sec, *nsec).UTC()
	}
	return id, h, nil
}
