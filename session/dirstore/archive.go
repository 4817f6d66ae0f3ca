package dirstore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

const archiveMark = transcriptSuffix + ".deleted."

// findArchived returns the name under which a transcript was archived, "" if it was not. It reads
// the directory if it likely was, and the first time. The first time that one is begun, it removes
// those that a process which died had begun and not acknowledged.
func (t *transcripts) findArchived(ref session.Ref, begins bool) (string, error) {
	a, dir := t.agent(ref)
	a.mu.Lock()
	defer a.mu.Unlock()
	bases := transcriptNames(ref)
	sweep := begins && !a.swept
	known := a.archived != nil && !sweep && !t.readOnly
	if known && !a.archived[strings.ToLower(bases[0])] && !a.archived[strings.ToLower(bases[1])] {
		return "", nil
	}
	var entries []fs.DirEntry
	if err := t.ifThere(func() (err error) {
		entries, err = t.fs.ReadDir(dir)
		return err
	}); err != nil {
		return "", err
	}
	all := make(map[string]bool)
	found := ""
	for _, e := range entries {
		if sweep && strings.HasSuffix(e.Name(), transcriptSuffix+tmpSuffix) { // this process has begun none yet
			_ = t.fs.Remove(filepath.Join(dir, e.Name())) // or the next time
		}
		mark := strings.LastIndex(e.Name(), archiveMark) // an id may have it too
		if mark < 0 {
			continue
		}
		base := e.Name()[:mark] + transcriptSuffix
		all[strings.ToLower(base)] = true
		if found != "" || base != bases[0] && base != bases[1] {
			continue
		}
		f, ok, err := openTranscript(t.fs, filepath.Join(dir, e.Name()), ref, os.O_RDONLY)
		if err != nil {
			return "", err
		}
		if ok {
			_ = f.f.Close()
			found = e.Name()
		}
	}
	a.archived, a.swept = all, a.swept || sweep
	return found, nil
}

func (t *transcripts) Archive(ctx context.Context, ref session.Ref, at time.Time) (name string, err error) {
	if err := ref.Validate(); err != nil {
		return "", err
	}
	err = t.write(ctx, ref, func(x *transcript) (err error) {
		name, err = t.archive(ref, x, at)
		return err
	})
	if err != nil {
		return "", t.fail(ref, "archive", err)
	}
	return name, nil
}

func (t *transcripts) archive(ref session.Ref, x *transcript, at time.Time) (string, error) {
	a, dir := t.agent(ref)
	if x.path == "" {
		name, err := t.findArchived(ref, false)
		if name != "" && err == nil {
			err = t.fs.SyncDir(dir) // the archiving before may not have been acknowledged
		}
		return name, err
	}
	if err := t.mendFile(ref, x); err != nil {
		return "", err
	}
	path := x.path
	base := filepath.Base(path)
	var name string
	for ; ; at = at.Add(time.Millisecond) {
		name = session.ArchiveName(base, at)
		if _, err := t.fs.Lstat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return "", err
		}
	}
	if err := t.fs.Rename(path, filepath.Join(dir, name)); err != nil {
		return "", t.missing(x, err)
	}
	x.path = "" // the next call looks for it again
	a.mu.Lock()
	if a.archived != nil {
		a.archived[strings.ToLower(base)] = true
	}
	a.mu.Unlock()
	return name, t.fs.SyncDir(dir)
}

// mendFile cuts off what a crash has left before the file is put away, after which nothing would.
func (t *transcripts) mendFile(ref session.Ref, x *transcript) error {
	if !x.torn {
		return nil
	}
	f, err := t.file(ref, x, os.O_RDWR)
	if err != nil {
		return err
	}
	return errors.Join(x.mend(t.fs, f), f.f.Close())
}
