package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/blob"
)

// A files is the [session.Files] of a schema.
type files struct{ *database }

// Close closes the Store. Each of its parts may be closed.
func (f files) Close() error {
	f.close()
	return nil
}

// fileError adds the transcript and the operation to err, unless it is nil.
func fileError(ref session.Ref, doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pgstore: files of transcript %q of %q: %s: %w",
		ref.SessionID, ref.Key, doing, err)
}

func (f files) Open(ctx context.Context, ref session.Ref, hash string) (io.ReadCloser, error) {
	file := session.File{Hash: hash}
	var id int64
	err := errors.Join(ref.Validate(), file.Validate())
	if err == nil {
		err = f.read(ctx, func(ctx context.Context, q querier) error {
			// One with a size and no hash was whole, and may be the one that is asked for.
			var known *string
			err := q.QueryRow(ctx, f.sql(`
				select id, hash, coalesce(size, -1) from {}.blobs
				where key = $1 and session = $2 and (hash = $3 or hash is null and size is not null)
				order by hash limit 1`), ref.Key.String(), ref.SessionID, hash).
				Scan(&id, &known, &file.Size)
			if errors.Is(err, pgx.ErrNoRows) {
				return fmt.Errorf("%w: %s", session.ErrNotFound, hash)
			}
			if err == nil {
				err = checkBlob(id, known, file.Size)
			}
			return err
		})
	}
	if err != nil {
		return nil, fileError(ref, "open", err)
	}
	ctx = context.WithoutCancel(ctx)
	return blob.NewReader(file, func(n int) (chunk []byte, ok bool, err error) {
		err = f.read(ctx, func(ctx context.Context, q querier) error {
			return q.QueryRow(ctx, f.sql(`select data from {}.chunks where blob = $1 and n = $2`),
				id, n).Scan(&chunk)
		})
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil, false, nil
		case err != nil:
			return nil, false, fmt.Errorf("pgstore: read file %s: %w", hash, err)
		}
		return chunk, true, nil
	}), nil
}

func (f files) List(ctx context.Context, ref session.Ref) iter.Seq2[session.File, error] {
	return func(yield func(session.File, error) bool) {
		list, err := f.list(ctx, ref)
		for _, file := range list {
			if err = f.check(ctx); err != nil {
				break
			}
			if !yield(file, nil) {
				return
			}
		}
		if err != nil {
			yield(session.File{}, fileError(ref, "list", err))
		}
	}
}

func (f files) list(ctx context.Context, ref session.Ref) (list []session.File, err error) {
	if err = ref.Validate(); err != nil {
		return nil, err
	}
	err = f.read(ctx, func(ctx context.Context, q querier) error {
		rows, err := q.Query(ctx, f.sql(`
			select id, hash, coalesce(size, -1) from {}.blobs
			where key = $1 and session = $2 and (hash is not null or size is not null)`),
			ref.Key.String(), ref.SessionID)
		if err == nil {
			list, err = pgx.CollectRows(rows, scanFile)
		}
		return err
	})
	return list, err
}

// scanFile reads the row of a blob that is whole.
func scanFile(row pgx.CollectableRow) (file session.File, err error) {
	var id int64
	var hash *string
	if err = row.Scan(&id, &hash, &file.Size); err == nil {
		err = checkBlob(id, hash, file.Size)
	}
	if err == nil {
		file.Hash = *hash
	}
	return file, err
}

// checkBlob returns a *[session.CorruptError] unless what the row of a blob says can be: the blob
// gets its hash and its size together, when it is whole. A size of -1 stands for null.
func checkBlob(id int64, hash *string, size int64) error {
	corrupt := func(column, reason string) error {
		return &session.CorruptError{
			File: fmt.Sprintf("table blobs, blob %d, column %s", id, column), Reason: reason,
		}
	}
	switch {
	case hash == nil:
		return corrupt("hash", "it is null, and the blob has a size")
	case session.File{Hash: *hash}.Validate() != nil:
		return corrupt("hash", fmt.Sprintf("it is %.80q, which is not a hash", *hash))
	case size < 0:
		return corrupt("size", "it is null or negative, and the blob has a hash")
	}
	return nil
}

// Refs implements [session.FilesLister].
func (f files) Refs(ctx context.Context, _ []session.Key) iter.Seq2[session.Ref, error] {
	return pages("files", func(from int64) ([]session.Ref, int64, error) {
		return f.refs(ctx, from, "blobs", `
			select * from (
				select min(id) as id, key, session from {}.blobs
				where hash is not null group by key, session
			) as owners
			where id > $1 order by id limit $2`)
	}, nil)
}

func (f files) Archive(ctx context.Context, ref session.Ref, _ time.Time) error {
	return f.forAll(ctx, ref, "archive", `
		update {}.blobs set archived = true
		where key = $1 and session = $2 and hash is not null and not archived`)
}

func (f files) Restore(ctx context.Context, ref session.Ref) error {
	return f.forAll(ctx, ref, "restore",
		`update {}.blobs set archived = false where key = $1 and session = $2 and archived`)
}

func (f files) Remove(ctx context.Context, ref session.Ref) error {
	return f.forAll(ctx, ref, "remove", `delete from {}.blobs where key = $1 and session = $2`)
}

// forAll changes all blobs of a transcript, while no Put of it becomes whole.
func (f files) forAll(ctx context.Context, ref session.Ref, doing, statement string) error {
	err := ref.Validate()
	if err == nil {
		err = f.change(ctx, func(ctx context.Context, q querier) error {
			if err := f.alone(ctx, q, ref); err != nil {
				return err
			}
			_, err := q.Exec(ctx, f.sql(statement), ref.Key.String(), ref.SessionID)
			return err
		})
	}
	return fileError(ref, doing, err)
}

// alone waits until no other transaction changes the files of a transcript.
func (f files) alone(ctx context.Context, q querier, ref session.Ref) error {
	_, err := q.Exec(ctx, `select pg_advisory_xact_lock(hashtextextended($1, 1))`,
		fmt.Sprintf("%s files %s %s", lockName(f.schema), ref.Key, ref.SessionID))
	return err
}
