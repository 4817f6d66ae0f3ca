package kill

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/internal/attach"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// filesOf returns the files that a sub-agent with a label is given, by name. The same label gives
// the same ones in every process.
func filesOf(label string) map[string][]byte {
	if crc32.ChecksumIEEE([]byte(label))%3 != 0 {
		return nil
	}
	return map[string][]byte{
		"short.txt": []byte("for " + label),
		"long.txt":  bytes.Repeat([]byte(label+"\n"), 500),
	}
}

// namesOf are the names of filesOf, in the order in which they are given.
var namesOf = []string{"short.txt", "long.txt"}

// attachmentsOf returns filesOf for a task.
func attachmentsOf(label string) (list []agent.Attachment) {
	files := filesOf(label)
	for _, name := range namesOf {
		if data, ok := files[name]; ok {
			list = append(list, agent.Attachment{Name: name, Reader: bytes.NewReader(data)})
		}
	}
	return list
}

// digestsOf returns what the store and a work directory are to have of filesOf.
func digestsOf(label string) (list []attach.File) {
	for name, data := range filesOf(label) {
		list = append(list, attach.File{Name: name, File: session.File{
			Hash: fmt.Sprintf("%x", sha256.Sum256(data)), Size: int64(len(data)),
		}})
	}
	return list
}

// errOtherFiles says that a turn has other files than those that its sub-agent was given.
var errOtherFiles = errors.New("other files than were given")

// checkAttached returns an error that is errOtherFiles unless a turn has the files of its
// sub-agent, byte for byte, and not others: in Turn.Files, and where it has a directory to work in
// there too. Another error is that of a disk, or of a turn that is over.
func checkAttached(t *agent.Turn) error {
	want := filesOf(t.Label)
	places := []fs.FS{t.Files}
	if t.Dir != "" && len(want) > 0 {
		places = append(places, os.DirFS(filepath.Join(t.Dir,
			filepath.FromSlash(attach.Dir(t.Session.Key.ID())))))
	}
	for _, place := range places {
		list, err := fs.ReadDir(place, ".")
		if err != nil {
			return missingIsOther(err)
		}
		n := 0
		for _, e := range list {
			if e.Name() != attach.ManifestName {
				n++
			}
		}
		if n != len(want) {
			return fmt.Errorf("%w: %d, want %d", errOtherFiles, n, len(want))
		}
		for name, whole := range want {
			data, err := fs.ReadFile(place, name)
			if err != nil {
				return missingIsOther(err)
			}
			if !bytes.Equal(data, whole) {
				return fmt.Errorf("%w: %s has %d bytes, want %d", errOtherFiles, name, len(data),
					len(whole))
			}
		}
	}
	return nil
}

// missingIsOther returns an error that is errOtherFiles for a file that is not there, or damaged.
func missingIsOther(err error) error {
	if errors.Is(err, syscall.ENOENT) && strings.Contains(err.Error(), "dirstore: ") {
		return err // the disk of the store is gone
	}
	for _, other := range []error{fs.ErrNotExist, session.ErrNotFound, session.ErrCorrupt} {
		if errors.Is(err, other) {
			return fmt.Errorf("%w: %w", errOtherFiles, err)
		}
	}
	return err
}

// errNotRead is the error of a reader of the load.
var errNotRead = errors.New("it cannot be read")

// refused has a spawn refused when some of its files have been put, now and then.
func (l *workload) refused(ctx context.Context, from agent.Requester, label string) {
	if crc32.ChecksumIEEE([]byte(label))%4 != 0 {
		return
	}
	_, err := agent.Spawn[string](ctx, from, agent.Task{
		Text: "never", Label: label, Attachments: []agent.Attachment{
			{Name: "good", Reader: strings.NewReader("for " + label)},
			{Name: "bad", Reader: iotest.ErrReader(errNotRead)},
		},
	})
	if err == nil {
		l.tell("wrong %s: it was spawned", label)
	}
}

// checkGiven fails unless the store of a process that is dead has the files of each run that is not
// archived, from the moment on in which the run is there.
func (w *witness) checkGiven(t *testing.T, when string) {
	t.Helper()
	s, err := dirstore.View(w.dir)
	require.NoError(t, err, when)
	for _, v := range w.views {
		for i := range v.Runs {
			run := &v.Runs[i]
			var want []session.File
			for _, f := range digestsOf(run.Label) {
				want = append(want, f.File)
			}
			err := spawntest.AuditFiles(t.Context(), s.Files,
				session.Ref{Key: run.Key, SessionID: run.SessionID}, want...)
			require.NoError(t, err, "%s: the attachments of %s, %s", when, run.Key, run.Status)
			if len(want) > 0 {
				w.sum.given++
			}
		}
	}
	require.NoError(t, s.Close())
}

// checkPlaces fails unless what stands in the work directory of a process that is dead belongs to
// runs that are not archived, and is whole or was being written.
func (w *witness) checkPlaces(t *testing.T, when string) {
	t.Helper()
	owners := make(map[string][]attach.File)
	for _, v := range w.views {
		for i := range v.Runs {
			if files := digestsOf(v.Runs[i].Label); len(files) > 0 {
				owners[v.Runs[i].Key.ID()] = files
			}
		}
	}
	require.NoError(t, attach.Audit(os.DirFS(w.work()), owners), when)
	list, err := os.ReadDir(filepath.Join(w.work(), attach.TopDir, attach.FilesDir))
	require.True(t, err == nil || errors.Is(err, fs.ErrNotExist), "%v", err)
	w.sum.places += len(list)
}

// work returns the work directory, beside the state.
func (w *witness) work() string { return filepath.Join(filepath.Dir(w.dir), workDir) }

// workDir is its name.
const workDir = "work"

// waitTidy waits until nothing is left of attachments in a work directory: the sessions that had
// them are archived a moment after they have ended, also those that another process has left.
func waitTidy(dir string) error {
	for deadline := time.Now().Add(time.Minute); ; {
		left, err := os.ReadDir(filepath.Join(dir, attach.TopDir, attach.FilesDir))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || time.Now().After(deadline) {
			return errors.Join(err, fmt.Errorf("attachments are left: %v", left))
		}
		<-time.After(5 * time.Millisecond)
	}
}

// waitDropped waits until nothing is on record of files of sub-agents that were not spawned.
func waitDropped(ctx context.Context, store *session.Store) error {
	for deadline := time.Now().Add(time.Minute); ; {
		left := 0
		for h, err := range store.Journal.Roots(ctx, session.RootQuery{}) {
			if err != nil {
				return err
			}
			if !h.Root.IsValid() {
				continue
			}
			r, err := spawntest.Inspect(store.Journal.Read(ctx, h.Root, 0))
			if err != nil {
				return err
			}
			left += len(r.Deposits)
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("files of %d sub-agents are left that were not spawned", left)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// leftAtTheEnd returns what is below the directory of attachments.
func (w *witness) leftAtTheEnd(t *testing.T) string {
	t.Helper()
	var left []string
	err := filepath.WalkDir(filepath.Join(w.work(), attach.TopDir),
		func(path string, _ fs.DirEntry, err error) error {
			left = append(left, path)
			return err
		})
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	require.NoError(t, err)
	return strings.Join(left, "\n")
}
