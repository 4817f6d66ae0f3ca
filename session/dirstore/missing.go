package dirstore

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// missingLog returns the error of a directory in which the log was not found with err. What else
// there is of a Store tells what has happened: an idle log is made after the log, so it is a
// *[session.CorruptError]. Another file is a *[MissingLogError]. Without either, it is err.
func missingLog(fsys disk.FS, dir string, err error) error {
	idle := newIdleLogs(fsys, filepath.Join(dir, journalDir))
	begun, lookErr := wal.Exists(fsys, idle.parentDir())
	if begun || lookErr != nil && !errors.Is(lookErr, fs.ErrNotExist) {
		return err // the owner has just replaced the log, or the log is out of reach
	}
	if lost := idle.checkEmpty(); lost != nil && !errors.Is(lost, fs.ErrNotExist) {
		return lost
	}
	if found := findRemains(fsys, dir); found != "" {
		return &MissingLogError{Dir: dir, Found: found}
	}
	return err
}

// findRemains returns the relative path of a file of a Store in a directory whose log is missing,
// or "" if there is none.
func findRemains(fsys disk.FS, dir string) string {
	agents, _ := fsys.ReadDir(filepath.Join(dir, sessionsDir))
	for _, a := range agents {
		if a.IsDir() {
			if name := firstFile(fsys, dir, filepath.Join(sessionsDir, a.Name())); name != "" {
				return name
			}
		}
	}
	name := firstFile(fsys, dir, journalDir)
	if name == "" {
		members := newMemberIndex(fsys, filepath.Join(dir, journalDir)).dir
		name = firstFile(fsys, dir, filepath.Join(journalDir, filepath.Base(members)))
	}
	if name == "" && fileExists(fsys, filepath.Join(dir, lockName)) {
		name = lockName
	}
	return name
}

// firstFile returns the relative path of a file in a part of a directory, or "" if there is none.
func firstFile(fsys disk.FS, dir, part string) string {
	entries, _ := fsys.ReadDir(filepath.Join(dir, part))
	for _, e := range entries {
		if !e.IsDir() {
			return filepath.Join(part, e.Name())
		}
	}
	return ""
}

// needStore returns fs.ErrNotExist if there is nothing of a Store in a directory, and the error of
// the system if that cannot be told.
func needStore(fsys disk.FS, dir string) error {
	journals := filepath.Join(dir, journalDir)
	begun, err := wal.Exists(fsys, journals)
	if begun || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := fsys.Lstat(dir); err != nil {
		return err
	}
	none := &fs.PathError{Op: "find a log in", Path: journals, Err: fs.ErrNotExist}
	err = missingLog(fsys, dir, none)
	_, missing := errors.AsType[*MissingLogError](err)
	if missing || errors.Is(err, session.ErrCorrupt) {
		return nil
	}
	return err
}
