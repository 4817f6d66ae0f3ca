package pgstore

import (
	"context"
	"errors"
	"io"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/blob"
)

// chunkBytes is the size of the pieces of a file, but for the last one.
const chunkBytes = 1 << 20

// staleAfter is how long what a Put has left may stay until the next large Put for the same
// transcript takes it away, by the clock of the server.
const staleAfter = "1 day"

// An upload is a Put that is under way. Its chunks are written as they are read, so that no
// transaction waits for the reader.
type upload struct {
	files
	ref  session.Ref
	blob int64 // 0: nothing is written yet
	n    int   // the number of chunks that are written
}

func (f files) Put(
	ctx context.Context, ref session.Ref, r io.Reader, want session.File,
) (session.File, error) {
	err := ref.Validate()
	if err == nil {
		err = f.check(ctx)
	}
	var in *session.FileReader
	if err == nil {
		in, err = session.NewFileReader(ctx, r, want)
	}
	if err == nil { // before r is read
		err = f.read(ctx, func(ctx context.Context, q querier) error {
			return f.refuse(ctx, q, ref)
		})
	}
	if err != nil {
		return session.File{}, fileError(ref, "put", err)
	}
	u := &upload{files: f, ref: ref}
	last, err := blob.Copy(in, chunkBytes, func(chunk []byte) error { return u.flush(ctx, chunk) })
	var file session.File
	if err == nil {
		file, err = in.File()
	}
	if err == nil {
		err = u.publish(ctx, file, last)
	}
	if err != nil {
		u.discard(ctx)
		return session.File{}, fileError(ref, "put", err)
	}
	return file, nil
}

// refuse returns ErrArchived if the transcript or its files are archived.
func (f files) refuse(ctx context.Context, q querier, ref session.Ref) error {
	var archived bool
	err := q.QueryRow(ctx, f.sql(`
		select exists (
			select from {}.transcripts where key = $1 and session = $2 and archived is not null
		) or exists (select from {}.blobs where key = $1 and session = $2 and archived)`),
		ref.Key.String(), ref.SessionID).Scan(&archived)
	if err == nil && archived {
		err = session.ErrArchived
	}
	return err
}

// flush writes a whole chunk, and begins the blob with the first one.
func (u *upload) flush(ctx context.Context, chunk []byte) error {
	blob := u.blob
	err := u.change(ctx, func(ctx context.Context, q querier) (err error) {
		if u.blob == 0 {
			if blob, err = u.begin(ctx, q); err != nil {
				return err
			}
		}
		return u.addChunk(ctx, q, blob, chunk)
	})
	if err == nil {
		u.blob = blob
		u.n++
	}
	return err
}

// begin adds a blob that is not whole, and takes away those that were left long ago.
func (u *upload) begin(ctx context.Context, q querier) (blob int64, err error) {
	_, err = q.Exec(ctx, u.sql(`
		delete from {}.blobs where key = $1 and session = $2 and hash is null
			and begun < now() - interval '`+staleAfter+`'`), u.ref.Key.String(), u.ref.SessionID)
	if err == nil {
		err = q.QueryRow(ctx, u.sql(`
			insert into {}.blobs (key, session) values ($1, $2) returning id`),
			u.ref.Key.String(), u.ref.SessionID).Scan(&blob)
	}
	return blob, err
}

// addChunk adds the next chunk of a blob.
func (u *upload) addChunk(ctx context.Context, q querier, blob int64, chunk []byte) error {
	_, err := q.Exec(ctx, u.sql(`insert into {}.chunks (blob, n, data) values ($1, $2, $3)`),
		blob, u.n, chunk)
	return err
}

// publish writes the last chunk, and gives the bytes their name. Bytes that are there already stay,
// and what was written of these goes.
func (u *upload) publish(ctx context.Context, file session.File, last []byte) error {
	return u.change(ctx, func(ctx context.Context, q querier) error {
		known, err := u.isKnown(ctx, q, file.Hash)
		if err != nil {
			return err
		}
		if known {
			_, err = q.Exec(ctx, u.sql(`delete from {}.blobs where id = $1`), u.blob)
			return err
		}
		blob := u.blob
		if blob == 0 {
			if blob, err = u.begin(ctx, q); err != nil {
				return err
			}
		}
		if len(last) > 0 {
			if err := u.addChunk(ctx, q, blob, last); err != nil {
				return err
			}
		}
		tag, err := q.Exec(ctx, u.sql(`update {}.blobs set hash = $2, size = $3 where id = $1`),
			blob, file.Hash, file.Size)
		if err == nil && tag.RowsAffected() == 0 {
			err = errRemoved
		}
		return err
	})
}

// errRemoved is the error of a Put whose transcript lost its files meanwhile.
var errRemoved = errors.New("pgstore: the files were removed while one was put")

// isKnown reports whether the transcript has the bytes already. It keeps every other change of the
// files, and the archiving of the transcript, waiting until the end of the transaction. The error
// is [session.ErrArchived] if they were archived meanwhile.
func (u *upload) isKnown(ctx context.Context, q querier, hash string) (known bool, err error) {
	if err = u.alone(ctx, q, u.ref); err != nil {
		return false, err
	}
	_, err = q.Exec(ctx, u.sql(`
		select from {}.transcripts where key = $1 and session = $2 for share`),
		u.ref.Key.String(), u.ref.SessionID)
	if err == nil {
		err = u.refuse(ctx, q, u.ref)
	}
	if err == nil {
		err = q.QueryRow(ctx, u.sql(`
			select exists (select from {}.blobs where key = $1 and session = $2 and hash = $3)`),
			u.ref.Key.String(), u.ref.SessionID, hash).Scan(&known)
	}
	return known, err
}

// discard takes away what a Put that has failed has written. What it does not reach goes later.
func (u *upload) discard(ctx context.Context) {
	if u.blob == 0 {
		return
	}
	_ = u.write(context.WithoutCancel(ctx), func(ctx context.Context, q querier) error {
		_, err := q.Exec(ctx, u.sql(`delete from {}.blobs where id = $1 and hash is null`), u.blob)
		return err
	})
}
