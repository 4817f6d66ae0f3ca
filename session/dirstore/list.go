package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
)

// eachName calls f with each name in the directory of each agent until it returns false. It returns
// the errors of f, after all that could be read, or why a directory cannot be read.
func (t *transcripts) eachName(
	ctx context.Context, f func(agent, name string) (more bool, err error),
) error {
	var failed []error
	agents, err := t.names(ctx, t.dir)
	for _, agent := range agents {
		dir := filepath.Join(t.dir, agent)
		if disk.CheckDir(t.fs, dir) != nil {
			continue // a file, or a link that leads out of the store
		}
		var names []string
		if names, err = t.names(ctx, dir); err != nil {
			break
		}
		for _, name := range names {
			more, err := f(agent, name)
			failed = append(failed, err)
			if !more {
				return nil
			}
		}
	}
	return errors.Join(append(failed, err)...)
}

// Refs implements [session.TranscriptsLister]. A file of which a repair has lost whose it is is an
// error.
func (t *transcripts) Refs(ctx context.Context) iter.Seq2[session.Ref, error] {
	return func(yield func(session.Ref, error) bool) {
		more := true
		err := t.check(ctx)
		if err == nil && t.lines != nil {
			err = t.eachUnfiled(false, 1, t.flush)
		}
		if err == nil {
			err = t.eachName(ctx, func(agent, name string) (bool, error) {
				if !strings.HasSuffix(name, transcriptSuffix) || isTorn(name) {
					return true, nil
				}
				ref, ok, err := t.refAt(filepath.Join(t.dir, agent, name))
				if ok {
					more = yield(ref, nil)
				}
				return more, err
			})
		}
		if err != nil && more {
			yield(session.Ref{}, fmt.Errorf("dirstore: transcripts: %w", transcriptError(err)))
		}
	}
}

// refAt returns the transcript that a file is. It returns false for a file that is gone.
func (t *transcripts) refAt(path string) (ref session.Ref, ok bool, err error) {
	f, err := t.fs.OpenFile(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return ref, false, nil
	}
	if err != nil {
		return ref, false, err
	}
	id, _, err := readHead(f, path)
	_ = f.Close()
	if err == nil && id.isLost() {
		const reason = "a repair has lost whose transcript it is"
		err = &session.CorruptError{File: path, Reason: reason}
	}
	if err != nil {
		return ref, false, err
	}
	ref.SessionID = id.SessionID
	if ref.Key, err = session.Parse(id.Key); err == nil {
		err = ref.Validate()
	}
	return ref, err == nil, err
}

// Refs implements [session.FilesLister].
func (f *files) Refs(ctx context.Context, known []session.Key) iter.Seq2[session.Ref, error] {
	return func(yield func(session.Ref, error) bool) {
		keys := make(map[string][]session.Key) // by the directory of their agent
		for _, key := range known {
			dir := agentDir(key)
			keys[dir] = append(keys[dir], key)
		}
		for dir, all := range keys {
			slices.SortFunc(all, func(a, b session.Key) int {
				return strings.Compare(a.String(), b.String())
			})
			keys[dir] = slices.Compact(all)
		}
		more := true
		err := f.check()
		if err == nil {
			err = f.t.eachName(ctx, func(agent, name string) (bool, error) {
				if !isFilesDir(name) {
					return true, nil
				}
				kept, err := f.keepsAny(filepath.Join(f.t.dir, agent, name))
				if kept {
					more = yield(refOfFiles(name, keys[agent]), nil)
				}
				return more, err
			})
		}
		if err != nil && more {
			yield(session.Ref{}, fmt.Errorf("dirstore: files: %w", transcriptError(err)))
		}
	}
}

// keepsAny reports whether a directory has a kept file.
func (f *files) keepsAny(dir string) (keeps bool, err error) {
	if err = disk.CheckDir(f.t.fs, dir); err == nil {
		err = f.entries(dir, func(e fs.DirEntry) error {
			keeps = keeps || isFileName(e.Name())
			return nil
		})
	}
	return keeps, err
}

// refOfFiles returns whose files a directory has, by its name. The Ref has no Key if that is none
// of keys.
func refOfFiles(name string, keys []session.Key) session.Ref {
	base := name[:strings.LastIndex(name, filesSuffix)]
	ref := session.Ref{
		SessionID: strings.TrimPrefix(base[:strings.LastIndexByte(base, '~')], "~"),
	}
	for _, key := range keys {
		of := session.Ref{Key: key, SessionID: ref.SessionID}
		if filesDirName(of) == base+filesSuffix {
			return of
		}
	}
	return ref
}
