package pgstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/offshoot-sdk/offshoot/session"
)

// maxLineBytes is the longest line of a transcript, as JSON.
const maxLineBytes = 64 << 20

// A transcripts is the [session.Transcripts] of a schema.
type transcripts struct{ *database }

// Close closes the Store. Each of its parts may be closed.
func (t transcripts) Close() error {
	t.close()
	return nil
}

// refError adds the transcript and the operation to err, unless it is nil.
func refError(ref session.Ref, doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pgstore: transcript %q of %q: %s: %w", ref.SessionID, ref.Key, doing, err)
}

// A transcriptState is what the row of a transcript says. The zero value is that of one that does
// not exist.
type transcriptState struct {
	id, last int64
	placed   int64  // the position of the last line that was imported
	name     string // that of an archived one
}

// state reads the row of a transcript.
func (t transcripts) state(
	ctx context.Context, q querier, ref session.Ref,
) (s transcriptState, err error) {
	err = q.QueryRow(ctx, t.sql(`
		select id, last, placed, coalesce(name, '') from {}.transcripts
		where key = $1 and session = $2`),
		ref.Key.String(), ref.SessionID).Scan(&s.id, &s.last, &s.placed, &s.name)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, nil
	}
	return s, err
}

// refusal returns why a transcript does not take lines after a position, nil if it does.
func (s transcriptState) refusal(after session.Pos) error {
	switch {
	case s.name != "":
		return fmt.Errorf("%w as %q", session.ErrArchived, s.name)
	case session.Pos(s.last) != after:
		return fmt.Errorf("after %d, which ends at %d: %w", after, s.last, session.ErrConflict)
	}
	return nil
}

// encodeLines returns the lines of messages, or an error that is [session.ErrInvalidLine].
func encodeLines(messages []session.Message) ([][]byte, error) {
	lines := make([][]byte, len(messages))
	for i := range messages {
		err := messages[i].Validate()
		if err == nil {
			lines[i], err = messages[i].AppendJSON(nil)
		}
		if err != nil {
			return nil, fmt.Errorf("message %d of %d: %w", i, len(messages), err)
		}
		if size := len(lines[i]); size > maxLineBytes {
			return nil, &LineSizeError{i, size, maxLineBytes}
		}
	}
	return lines, nil
}

const (
	beginTranscript = `
		with t as (
			insert into {}.transcripts (key, session, last)
			select $1::text, $2::text, $4::bigint where $3::bigint = 0
			on conflict (key, session) do nothing
			returning id
		) `
	extendTranscript = `
		with t as (
			update {}.transcripts set last = $4::bigint
			where key = $1::text and session = $2::text and last = $3::bigint and archived is null
			returning id
		) `
	addLines = `
		insert into {}.lines (transcript, pos, size, line)
		select t.id, $3::bigint + l.n, octet_length(l.line), l.line
		from t, unnest($5::bytea[]) with ordinality as l (line, n)`

	beginPlaced = `
		with t as (
			insert into {}.transcripts (key, session, last, placed)
			select $1::text, $2::text, $4::bigint, $4::bigint where $3::bigint = 0
			on conflict (key, session) do nothing
			returning id
		) `
	extendPlaced = `
		with t as (
			update {}.transcripts set last = $4::bigint, placed = $4::bigint
			where key = $1::text and session = $2::text and last = $3::bigint and archived is null
			returning id
		) `
	addPlaced = `
		insert into {}.lines (transcript, pos, prior, size, line)
		select t.id, l.pos, lag(l.pos, 1, $3::bigint) over (order by l.pos),
			octet_length(l.line), l.line
		from t, unnest($5::bytea[], $6::bigint[]) as l (line, pos)`
)

func (t transcripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, messages ...session.Message,
) (session.Pos, error) {
	err := ref.Validate()
	var lines [][]byte
	if err == nil {
		lines, err = encodeLines(messages)
	}
	last := after + session.Pos(len(lines))
	if err == nil && last > math.MaxInt64 {
		err = session.ErrConflict // no transcript ends there
	}
	switch {
	case err != nil:
	case len(lines) == 0:
		err = t.read(ctx, func(ctx context.Context, q querier) error {
			s, err := t.state(ctx, q, ref)
			return errors.Join(err, s.refusal(after))
		})
	default:
		err = t.write(ctx, func(ctx context.Context, q querier) error {
			return t.add(ctx, q, ref, after, lines)
		})
	}
	if err != nil {
		return 0, refError(ref, "append", err)
	}
	return last, nil
}

// add adds lines, or says why the transcript does not take them.
func (t transcripts) add(
	ctx context.Context, q querier, ref session.Ref, after session.Pos, lines [][]byte,
) error {
	head := extendTranscript
	if after == 0 {
		head = beginTranscript
	}
	return t.addBy(ctx, q, ref, after, head+addLines, int64(after)+int64(len(lines)), lines)
}

// addBy adds lines by a statement with its arguments from the fourth on, or says why the transcript
// does not take them.
func (t transcripts) addBy(
	ctx context.Context, q querier, ref session.Ref, after session.Pos, statement string,
	args ...any,
) error {
	all := append([]any{ref.Key.String(), ref.SessionID, int64(after)}, args...)
	tag, err := q.Exec(ctx, t.sql(statement), all...)
	if err != nil || tag.RowsAffected() > 0 {
		return err
	}
	s, err := t.state(ctx, q, ref)
	if err != nil {
		return err
	}
	if err = s.refusal(after); err != nil {
		return err
	}
	// It took nothing a moment ago, and would now: another call was in between.
	return session.ErrConflict
}

// Import implements [session.TranscriptsImporter].
func (t transcripts) Import(
	ctx context.Context, ref session.Ref, after session.Pos, lines ...session.Line,
) (session.Pos, error) {
	err := ref.Validate()
	if err == nil {
		err = session.ValidateImport(after, lines)
	}
	if len(lines) == 0 && err == nil {
		return t.Append(ctx, ref, after)
	}
	messages, places := make([]session.Message, len(lines)), make([]int64, len(lines))
	last := after
	for i, line := range lines {
		if line.Pos > math.MaxInt64 && err == nil {
			err = fmt.Errorf("%w: the position %d is too large", session.ErrInvalidLine, line.Pos)
		}
		messages[i], places[i], last = line.Message, int64(line.Pos), line.Pos
	}
	var encoded [][]byte
	if err == nil {
		encoded, err = encodeLines(messages)
	}
	if err == nil {
		head := extendPlaced
		if after == 0 {
			head = beginPlaced
		}
		err = t.write(ctx, func(ctx context.Context, q querier) error {
			return t.addBy(ctx, q, ref, after, head+addPlaced, int64(last), encoded, places)
		})
	}
	if err != nil {
		return 0, refError(ref, "import", err)
	}
	return last, nil
}

// Refs implements [session.TranscriptsLister].
func (t transcripts) Refs(ctx context.Context) iter.Seq2[session.Ref, error] {
	return pages("transcripts", func(from int64) ([]session.Ref, int64, error) {
		return t.refs(ctx, from, "transcripts", `
			select id, key, session from {}.transcripts
			where archived is null and id > $1 order by id limit $2`)
	}, nil)
}

// refs returns a page of the transcripts that a statement selects from a table, and the number
// behind which there are more, -1 for none.
func (d *database) refs(
	ctx context.Context, from int64, table, statement string,
) (page []session.Ref, next int64, err error) {
	next = -1
	err = d.read(ctx, func(ctx context.Context, q querier) error {
		rows, err := q.Query(ctx, d.sql(statement), from, pageRows)
		if err != nil {
			return err
		}
		page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (session.Ref, error) {
			var key string
			var ref session.Ref
			if err := row.Scan(&next, &key, &ref.SessionID); err != nil {
				return ref, err
			}
			var err error
			if ref.Key, err = session.Parse(key); err != nil {
				file := fmt.Sprintf("table %s, row %d", table, next)
				err = &session.CorruptError{File: file, Reason: err.Error()}
			}
			return ref, err
		})
		return err
	})
	if len(page) < pageRows {
		next = -1
	}
	return page, next, err
}

func (t transcripts) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	return func(yield func(session.Line, error) bool) {
		r, err := t.begin(ctx, ref, q)
		for err == nil && r.pos < r.last {
			var page []session.Line
			if page, err = t.page(ctx, r); err != nil {
				break
			}
			for _, line := range page {
				if !yield(line, nil) {
					return
				}
				r.pos = int64(line.Pos)
			}
			err = t.check(ctx)
		}
		if err != nil {
			yield(session.Line{}, refError(ref, "read", err))
		}
	}
}

// begin looks where the lines that q selects begin and end.
func (t transcripts) begin(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) (r reading, err error) {
	if err = errors.Join(ref.Validate(), q.Validate()); err != nil {
		return r, err
	}
	err = t.read(ctx, func(ctx context.Context, db querier) error {
		s, err := t.state(ctx, db, ref)
		if err == nil && s.name != "" && !q.Archived {
			err = fmt.Errorf("%w as %q", session.ErrArchived, s.name)
		}
		r.id, r.last = s.id, s.last
		r.pos = int64(min(q.After, math.MaxInt64))
		switch first := r.last - int64(q.Last); {
		case err != nil || q.Last == 0:
		case first >= s.placed:
			r.pos = max(r.pos, first)
		default:
			r.pos, err = t.before(ctx, db, r, q.Last)
		}
		return err
	})
	return r, err
}

// before returns the position before the last n lines behind r.pos.
func (t transcripts) before(
	ctx context.Context, q querier, r reading, n int,
) (pos int64, err error) {
	err = q.QueryRow(ctx, t.sql(`
		select coalesce(min(coalesce(prior, pos - 1)), 0) from (
			select * from {}.lines where transcript = $1 and pos > $2 order by pos desc limit $3
		) as lines`), r.id, r.pos, n).Scan(&pos)
	return max(pos, r.pos), err
}

// page reads the next lines of a transcript.
func (t transcripts) page(ctx context.Context, r reading) (page []session.Line, err error) {
	err = t.read(ctx, func(ctx context.Context, q querier) error {
		rows, err := q.Query(ctx, t.sql(`
			select pos, coalesce(prior, pos - 1), line from (
				select *, sum(size::bigint) over (order by pos) - size as before from (
					select * from {}.lines where transcript = $1 and pos > $2 and pos <= $3
					order by pos limit $4
				) as page
			) as sized
			where before < $5 order by pos`), r.id, r.pos, r.last, pageRows, pageBytes)
		if err != nil {
			return err
		}
		next := r.pos
		page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (session.Line, error) {
			line, err := r.scanLine(row, next)
			next = int64(line.Pos)
			return line, err
		})
		if err == nil && len(page) == 0 {
			err = r.missingLine(r.pos + 1)
		}
		return err
	})
	return page, err
}

// scanLine reads a row of page, which has the line that follows a position.
func (r *reading) scanLine(row pgx.CollectableRow, after int64) (l session.Line, err error) {
	var pos, prior int64
	var text []byte
	if err = row.Scan(&pos, &prior, &text); err != nil {
		return l, err
	}
	if prior > after {
		return l, r.missingLine(after + 1)
	}
	l.Pos = session.Pos(pos)
	if err = l.Message.UnmarshalJSON(text); err != nil {
		return l, &session.CorruptError{File: r.lineTable(), Offset: pos, Reason: err.Error()}
	}
	return l, nil
}

// missingLine is the error of a line that is not there. Its transcript may have been removed while
// it was read.
func (r *reading) missingLine(pos int64) error {
	return &session.CorruptError{File: r.lineTable(), Offset: pos, Reason: "the line is missing"}
}

func (r *reading) lineTable() string { return fmt.Sprintf("table lines, transcript %d", r.id) }

func (t transcripts) Archive(
	ctx context.Context, ref session.Ref, at time.Time,
) (name string, err error) {
	if err = ref.Validate(); err != nil {
		return "", refError(ref, "archive", err)
	}
	name = session.ArchiveName(ref.SessionID+".jsonl", at)
	// A name has the milliseconds that it began with.
	millis := at.Unix()*1000 + int64(at.Nanosecond())/int64(time.Millisecond)
	err = t.write(ctx, func(ctx context.Context, q querier) error {
		tag, err := q.Exec(ctx, t.sql(`
			update {}.transcripts set archived = $3, name = $4
			where key = $1 and session = $2 and archived is null`),
			ref.Key.String(), ref.SessionID, millis, name)
		if err != nil || tag.RowsAffected() > 0 {
			return err
		}
		s, err := t.state(ctx, q, ref)
		name = s.name
		return err
	})
	if err != nil {
		return "", refError(ref, "archive", err)
	}
	return name, nil
}

func (t transcripts) Restore(ctx context.Context, ref session.Ref) error {
	err := ref.Validate()
	if err == nil {
		err = t.write(ctx, func(ctx context.Context, q querier) error {
			tag, err := q.Exec(ctx, t.sql(`
				update {}.transcripts set archived = null, name = null
				where key = $1 and session = $2`), ref.Key.String(), ref.SessionID)
			if err == nil && tag.RowsAffected() == 0 {
				err = session.ErrNotFound
			}
			return err
		})
	}
	return refError(ref, "restore", err)
}

func (t transcripts) Archives(
	ctx context.Context, before time.Time,
) iter.Seq2[session.Archived, error] {
	return pages("archived transcripts", func(from int64) ([]session.Archived, int64, error) {
		return t.archives(ctx, before, from)
	}, nil)
}

// archives returns a page of archived transcripts, and the number behind which there are more, -1
// for none.
func (t transcripts) archives(
	ctx context.Context, before time.Time, from int64,
) (page []session.Archived, next int64, err error) {
	limit := int64(math.MaxInt64)
	if !before.IsZero() { // the first millisecond that is not before it
		limit = before.Unix()*1000 +
			(int64(before.Nanosecond())+int64(time.Millisecond)-1)/int64(time.Millisecond)
	}
	next = -1
	err = t.read(ctx, func(ctx context.Context, q querier) error {
		rows, err := q.Query(ctx, t.sql(`
			select id, key, session, archived from {}.transcripts
			where archived is not null and archived < $1 and id > $2 order by id limit $3`),
			limit, from, pageRows)
		if err != nil {
			return err
		}
		page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (session.Archived, error) {
			id, a, err := scanArchived(row)
			next = id
			return a, err
		})
		return err
	})
	if len(page) < pageRows {
		next = -1
	}
	return page, next, err
}

// scanArchived reads a row of archives.
func scanArchived(row pgx.CollectableRow) (id int64, a session.Archived, err error) {
	var key string
	var millis int64
	if err = row.Scan(&id, &key, &a.Ref.SessionID, &millis); err != nil {
		return 0, a, err
	}
	a.At = time.UnixMilli(millis).UTC()
	if a.Ref.Key, err = session.Parse(key); err != nil {
		return 0, a, &session.CorruptError{
			File: fmt.Sprintf("table transcripts, transcript %d", id), Reason: err.Error(),
		}
	}
	return id, a, nil
}

func (t transcripts) Remove(ctx context.Context, ref session.Ref) error {
	err := ref.Validate()
	if err == nil {
		err = t.write(ctx, func(ctx context.Context, q querier) error {
			tag, err := q.Exec(ctx, t.sql(`
				delete from {}.transcripts
				where key = $1 and session = $2 and archived is not null`),
				ref.Key.String(), ref.SessionID)
			if err != nil || tag.RowsAffected() > 0 {
				return err
			}
			s, err := t.state(ctx, q, ref)
			if err == nil && s.id > 0 {
				err = session.ErrNotArchived
			}
			return err
		})
	}
	return refError(ref, "remove", err)
}

// Locate returns "": the lines of a database are not at a path.
func (t transcripts) Locate(session.Ref) string { return "" }
