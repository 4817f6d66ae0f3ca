package natsstore

import (
	"context"
	"errors"
	"io"
	"strconv"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/blob"
)

// An upload is a Put that is under way. Its chunks are written as they are read, and are a file
// once the manifest names them.
type upload struct {
	files
	ref   session.Ref
	token string // of the transcript
	name  string // of the chunks
	n     int    // how many chunks are written
	first uint64 // the sequence of the first one
}

func (f files) Put(
	ctx context.Context, ref session.Ref, r io.Reader, want session.File,
) (session.File, error) {
	err := errors.Join(f.check(ctx), ref.Validate())
	var in *session.FileReader
	if err == nil {
		in, err = session.NewFileReader(ctx, r, want)
	}
	u := &upload{files: f, ref: ref, name: token(session.NewID())}
	if err == nil { // before r is read
		c := f.chainOf(ref)
		u.token = c.token
		var m manifest
		if m, _, err = f.manifest(ctx, c); err == nil {
			err = f.refuse(ctx, ref, m)
		}
	}
	var file session.File
	if err == nil {
		file, err = u.put(ctx, in)
	}
	if err != nil {
		return session.File{}, fileError(ref, "put", err)
	}
	return file, nil
}

// refuse returns ErrArchived if the transcript or its files are archived.
func (f files) refuse(ctx context.Context, ref session.Ref, m manifest) error {
	if m.Archived {
		return session.ErrArchived
	}
	tip, err := f.engine.chainOf(ref).tip(ctx)
	if err == nil && tip.Archived != "" {
		err = session.ErrArchived
	}
	return err
}

// put writes the chunks, and then the manifest. Chunks that no manifest names are taken away.
func (u *upload) put(ctx context.Context, in *session.FileReader) (file session.File, err error) {
	last, err := blob.Copy(in, u.room, func(chunk []byte) error { return u.flush(ctx, chunk) })
	if err == nil {
		file, err = in.File()
	}
	if err == nil && len(last) > 0 {
		err = u.flush(ctx, last)
	}
	named := false
	if err == nil {
		_, err = u.change(ctx, u.ref, func(m *manifest, _ *head) (bool, error) {
			named = false
			if err := u.refuse(ctx, u.ref, *m); err != nil {
				return false, err
			}
			if _, known := m.find(file.Hash); known {
				return false, nil
			}
			if u.n > 0 && m.Removed > u.first {
				return false, errRemoved
			}
			named = true
			m.Files = append(m.Files, stored{file, u.name})
			return true, nil
		})
	}
	if u.n > 0 && !named { // else the manifest may name them, also after an error
		u.discard(ctx)
	}
	return file, err
}

// errRemoved is the error of a Put whose transcript lost its files meanwhile.
var errRemoved = errors.New("natsstore: the files were removed while one was put")

// flush writes a chunk.
func (u *upload) flush(ctx context.Context, chunk []byte) error {
	seq, err := u.text.publish(ctx, publication{
		subject: u.text.subject(chunkKind, u.token, u.name, strconv.Itoa(u.n)), data: chunk,
	})
	if err == nil {
		if u.n == 0 {
			u.first = seq
		}
		u.n++
	}
	return err
}

// discard takes away what a Put has written that is of no use. What it does not reach goes with the
// transcript.
func (u *upload) discard(ctx context.Context) {
	_ = u.text.purge(context.WithoutCancel(ctx),
		u.text.subject(chunkKind, u.token, u.name, "*"), 0)
}
