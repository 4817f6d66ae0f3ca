package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/blob"
)

// A files is the [session.Files] of a Store.
type files struct{ *engine }

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
	return fmt.Errorf("natsstore: files of transcript %q of %q: %s: %w",
		ref.SessionID, ref.Key, doing, err)
}

// chainOf returns the chain of the manifest of a transcript. Each message replaces the one before.
func (f files) chainOf(ref session.Ref) chain {
	return f.text.newChain(fileKind, filesName+refName(ref))
}

// manifest returns the list of the files of a transcript, with the link that has it.
func (f files) manifest(ctx context.Context, c chain) (m manifest, tip link, err error) {
	if tip, err = c.tip(ctx); err != nil || tip.seq == 0 {
		return m, tip, err
	}
	m, err = c.manifest(ctx, tip)
	if tip.Gone {
		m = manifest{Removed: tip.seq}
	}
	return m, tip, err
}

// change replaces the manifest of a transcript by what decide makes of it. It is called again if
// another change comes between. It reports whether there is a change, and the last message.
func (f files) change(
	ctx context.Context, ref session.Ref,
	decide func(m *manifest, h *head) (changed bool, err error),
) (l link, err error) {
	if err = errors.Join(f.check(ctx), ref.Validate()); err != nil {
		return l, err
	}
	c := f.chainOf(ref)
	for {
		m, tip, err := f.manifest(ctx, c)
		var h head
		changed := false
		if err == nil {
			changed, err = decide(&m, &h)
		}
		if err != nil || !changed {
			return link{}, err
		}
		content, err := json.Marshal(m)
		if err != nil {
			return link{}, err
		}
		var ttl time.Duration
		if h.Gone {
			content, ttl = []byte("{}"), markTTL
		}
		l, err = c.extend(ctx, tip, h, content, ttl)
		if err == nil {
			c.shorten(ctx, l)
		}
		if !errors.Is(err, errMoved) {
			return l, err
		}
	}
}

func (f files) Open(ctx context.Context, ref session.Ref, hash string) (io.ReadCloser, error) {
	err := errors.Join(f.check(ctx), ref.Validate(), session.File{Hash: hash}.Validate())
	var file stored
	c := f.chainOf(ref)
	if err == nil {
		var m manifest
		if m, _, err = f.manifest(ctx, c); err == nil {
			var ok bool
			if file, ok = m.find(hash); !ok {
				err = fmt.Errorf("%w: %s", session.ErrNotFound, hash)
			}
		}
	}
	if err != nil {
		return nil, fileError(ref, "open", err)
	}
	ctx = context.WithoutCancel(ctx)
	return blob.NewReader(file.File, func(n int) ([]byte, bool, error) {
		chunk := f.text.subject(chunkKind, c.token, file.Chunks, strconv.Itoa(n))
		m, ok, err := f.text.last(ctx, chunk)
		if err != nil {
			err = fmt.Errorf("natsstore: read file %s: %w", hash, err)
		}
		return m.data, ok, err
	}), nil
}

func (f files) List(ctx context.Context, ref session.Ref) iter.Seq2[session.File, error] {
	return func(yield func(session.File, error) bool) {
		var m manifest
		err := errors.Join(f.check(ctx), ref.Validate())
		if err == nil {
			m, _, err = f.manifest(ctx, f.chainOf(ref))
		}
		for _, file := range m.Files {
			if err = errors.Join(err, f.check(ctx)); err != nil {
				break
			}
			if !yield(file.File, nil) {
				return
			}
		}
		if err != nil {
			yield(session.File{}, fileError(ref, "list", err))
		}
	}
}

func (f files) Archive(ctx context.Context, ref session.Ref, _ time.Time) error {
	return f.setArchived(ctx, ref, "archive", true)
}

func (f files) Restore(ctx context.Context, ref session.Ref) error {
	return f.setArchived(ctx, ref, "restore", false)
}

func (f files) setArchived(ctx context.Context, ref session.Ref, doing string, to bool) error {
	_, err := f.change(ctx, ref, func(m *manifest, _ *head) (bool, error) {
		changed := len(m.Files) > 0 && m.Archived != to
		m.Archived = to
		return changed, nil
	})
	return fileError(ref, doing, err)
}

func (f files) Remove(ctx context.Context, ref session.Ref) error {
	c := f.chainOf(ref)
	chunks := f.text.subject(chunkKind, c.token, ">")
	l, err := f.change(ctx, ref, func(m *manifest, h *head) (bool, error) {
		*h = head{Gone: true}
		if len(m.Files) > 0 {
			return true, nil
		}
		left, err := f.text.subjects(ctx, chunks) // of a Put that is under way or was cut off
		return len(left) > 0, err
	})
	if err == nil && l.seq > 0 {
		err = f.text.purge(ctx, chunks, l.seq)
	}
	return fileError(ref, "remove", err)
}
