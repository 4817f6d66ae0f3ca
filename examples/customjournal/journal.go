// Package filejournal is an example of a [session.Journal] of one's own, in a hundred lines. It
// keeps one JSON file for each tree, and every append replaces the whole file.
//
//	Append   lock, load <dir>/<hash of root>.json, compare the last sequence,
//	         write a new file beside it, sync, rename
//	Read     load, yield
//	Roots    load every file, and yield those that have the member or are due
//
// It is for one process at a time, and for a few trees, since Roots reads all of them. A journal
// for many trees keeps an index of members and one of due times. The test is three lines: package
// sessiontest has the rules.
package filejournal

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A Journal keeps logs in the directory Dir, which must exist. Its methods may be called from any
// number of goroutines.
type Journal struct {
	Dir string
	mu  sync.Mutex
}

// A file is the content of one file. Its name on disk is a hash of the root, because keys tell
// upper case from lower and some file systems do not. So the root itself is in the content.
type file struct {
	Root    string
	Last    session.Seq
	Due     time.Time     `json:",omitzero"`
	Members []session.Key `json:",omitempty"`
	Entries []session.Entry
}

// Append implements [session.Journal].
func (j *Journal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if root.IsZero() {
		return 0, session.ErrInvalidKey
	}
	if err := errors.Join(b.Validate(), ctx.Err()); err != nil {
		return 0, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	f, err := load(j.path(root))
	if err != nil {
		return 0, err
	}
	if f.Last != after {
		return 0, session.ErrConflict
	}
	if b.Reset {
		f.Entries, f.Members = nil, nil
	}
	for _, m := range b.Members {
		if !slices.Contains(f.Members, m) {
			f.Members = append(f.Members, m)
		}
	}
	for _, e := range b.Entries {
		text, err := e.Payload.AppendJSON(nil)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", session.ErrInvalidBatch, err)
		}
		f.Last++
		e.Seq, e.Batch, e.Payload = f.Last, b.ID, session.Raw(text)
		f.Entries = append(f.Entries, e)
	}
	f.Root, f.Due = root.String(), b.Due
	return f.Last, save(j.path(root), f)
}

// Read implements [session.Journal].
func (j *Journal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		f, err := load(j.path(root))
		if err = errors.Join(err, ctx.Err()); err != nil {
			yield(session.Entry{}, err)
			return
		}
		for _, e := range f.Entries {
			if e.Seq > after && !yield(e, nil) {
				return
			}
		}
	}
}

// Roots implements [session.Journal].
func (j *Journal) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) {
		names, err := filepath.Glob(filepath.Join(j.Dir, "*.json"))
		if err = errors.Join(err, ctx.Err()); err != nil {
			yield(session.Head{}, err)
			return
		}
		for _, name := range names {
			f, err := load(name)
			if err != nil {
				yield(session.Head{}, err)
				return
			}
			if !f.selectedBy(q) {
				continue
			}
			h, err := f.head(name)
			if !yield(h, err) || err != nil {
				return
			}
		}
	}
}

// selectedBy reports whether q selects the tree.
func (f *file) selectedBy(q session.RootQuery) bool {
	due := q.DueBefore.IsZero() || !f.Due.IsZero() && f.Due.Before(q.DueBefore)
	return due && (q.Member.IsZero() || slices.Contains(f.Members, q.Member))
}

// head returns what the file with this name says of its tree.
func (f *file) head(name string) (session.Head, error) {
	root, err := session.ParseRoot(f.Root)
	if err != nil {
		return session.Head{}, fmt.Errorf("filejournal: %s: %w", name, err)
	}
	return session.Head{Root: root, Last: f.Last, Due: f.Due}, nil
}

// path returns the name of the file of a tree.
func (j *Journal) path(root session.Key) string {
	return filepath.Join(j.Dir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(root.String()))))
}

// load reads a file. A file that does not exist is an empty log.
func load(name string) (f file, err error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(data, &f)
}

// save replaces a file. The new content is durable before it takes the place of the old one, and
// the name of the new file is durable when save returns.
func save(name string, f file) error {
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	tmp, err := os.Create(name + ".tmp")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".tmp", name); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
