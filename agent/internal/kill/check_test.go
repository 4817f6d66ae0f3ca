package kill

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// checkDisk reads what is on the disk, as a tool would, and fails if anything acknowledged is
// missing or anything is there that cannot be.
func (w *witness) checkDisk(t *testing.T, when string) map[session.Key]spawntest.Report {
	t.Helper()
	w.mu.Lock()
	last := maps.Clone(w.last) // before anything is read: the bot may be alive
	w.mu.Unlock()
	before := w.listSessions(t, when) // a fact says of files that they are put before they are
	for f, err := range dirstore.Verify(t.Context(), w.dir) {
		require.NoError(t, err, "%s: %s", when, f.Path)
	}
	s, err := dirstore.View(w.dir)
	require.NoError(t, err, when)
	heads := make(map[session.Key]session.Seq)
	for h, err := range s.Journal.Roots(t.Context(), session.RootQuery{}) {
		require.NoError(t, err, when)
		heads[h.Root] = h.Last
	}
	for root, seq := range last {
		require.GreaterOrEqual(t, heads[root], seq, "%s: acknowledged entries of %s are missing",
			when, root)
	}
	reports := make(map[session.Key]spawntest.Report)
	w.views = w.views[:0]
	for root := range heads {
		if root.IsValid() { // other roots do not name trees
			reports[root], err = spawntest.Inspect(s.Journal.Read(t.Context(), root, 0))
			require.NoError(t, err, "%s: %s", when, root)
			w.views = append(w.views, w.checkFiles(t, s, root, when))
			w.checkRefused(t, s, root, when)
		}
	}
	w.checkOrphans(t, before, reports, when)
	require.NoError(t, s.Close())
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(t, w.wrong, when)
	return reports
}

// checkFiles fails unless each file that a run of a tree names is there with its bytes. It returns
// what it has looked at.
func (w *witness) checkFiles(
	t *testing.T, s *session.Store, root session.Key, when string,
) spawn.TreeView {
	t.Helper()
	view, err := spawn.View(root, s.Journal.Read(t.Context(), root, 0))
	require.NoError(t, err, "%s: %s", when, root)
	for i := range view.Runs {
		run := &view.Runs[i]
		if run.Result.Whole.IsZero() {
			continue
		}
		ref := session.Ref{Key: run.Key, SessionID: run.SessionID}
		require.NoError(t, spawntest.AuditFiles(t.Context(), s.Files, ref, run.Result.Whole), when)
		require.NoError(t, run.Result.Load(t.Context(), s.Files, ref), when)
		w.sum.long++
	}
	return view
}

// listSessions returns the paths of what each agent has of sessions.
func (w *witness) listSessions(t *testing.T, when string) (paths []string) {
	t.Helper()
	fsys, dir := disk.At(w.dir), filepath.Join(w.dir, "sessions")
	agents, err := fsys.ReadDir(dir)
	require.NoError(t, err, when)
	for _, a := range agents {
		list, err := fsys.ReadDir(filepath.Join(dir, a.Name()))
		require.NoError(t, err, when)
		for _, e := range list {
			paths = append(paths, filepath.Join(dir, a.Name(), e.Name()))
		}
	}
	return paths
}

// checkRefused fails if a sub-agent that was not spawned has files, once those are removed.
func (w *witness) checkRefused(t *testing.T, s *session.Store, root session.Key, when string) {
	t.Helper()
	for f, err := range spawntest.Facts(s.Journal.Read(t.Context(), root, 0)) {
		require.NoError(t, err, when)
		if f.Kind != "deposit_dropped" {
			continue
		}
		w.sum.dropped++
		for file, err := range s.Files.List(t.Context(),
			session.Ref{Key: f.Run, SessionID: f.Run.ID()}) {
			require.NoError(t, err, when)
			require.Fail(t, "a file is left", "%s: %v of %s", when, file, f.Run)
		}
	}
}

// checkOrphans fails unless each directory of files belongs to a transcript, archived or not, or to
// a session on record that has none: it was given files before its first line, or is about to be
// spawned with them.
func (w *witness) checkOrphans(
	t *testing.T, before []string, reports map[session.Key]spawntest.Report, when string,
) {
	t.Helper()
	known := make(map[string]bool)
	for _, r := range reports {
		for _, k := range r.Deposits {
			known[k.ID()] = true
		}
	}
	for _, v := range w.views {
		known[v.SessionID] = true
		for i := range v.Runs {
			known[v.Runs[i].SessionID] = true
		}
	}
	has, there := make(map[string]bool), make(map[string]bool)
	after := w.listSessions(t, when) // the bot may be alive
	for _, path := range slices.Concat(before, after) {
		if id, _, ok := strings.Cut(filepath.Base(path), ".jsonl"); ok {
			has[id] = true
		}
	}
	for _, path := range after {
		there[path] = true
	}
	for _, path := range before {
		id, _, ok := strings.Cut(filepath.Base(path), "~")
		require.True(t, !ok || has[id] || known[id] || !there[path],
			"%s: %s belongs to no session", when, path)
	}
}

const atTheEnd = "at the end"

// checkEnd looks at what has become of everything once all of it has come to an end. arrived are
// the keys under which each thing left the bot.
func (w *witness) checkEnd(t *testing.T, arrived map[string][]string) {
	t.Helper()
	reports := w.checkDisk(t, atTheEnd)
	for root, r := range reports {
		require.NoError(t, r.AtRest(), "%s", root)
		require.Zero(t, r.Blocked, "%s", root)
	}
	for thing, keys := range arrived {
		if strings.HasPrefix(thing, apologyTo(session.Key{})) {
			continue // a tree may apologise for several turns
		}
		require.Len(t, keys, 1, "%s was told under several keys", thing)
	}
	for thing, root := range w.owed {
		if !mayBeStopped(root) && len(arrived[apologyTo(root)]) == 0 {
			require.NotEmpty(t, arrived[thing],
				"nobody was told of %s, which %s owes since it acknowledged it", thing, root)
		}
	}
	if w.world == managed {
		w.checkConversations(t, arrived)
	}
	w.sum.owed += len(w.owed)
	w.sum.arrived += len(arrived)
	w.sum.trees += len(reports)
}

// readArrivals returns the keys under which each thing has left the bot. The same key tells of the
// same things.
func (w *witness) readArrivals(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(w.dir), arrivalsFile))
	require.NoError(t, err)
	keys, texts := make(map[string][]string), make(map[string]string)
	for line := range strings.Lines(string(b)) {
		if !strings.HasSuffix(line, "\n") {
			break // it was killed there
		}
		key, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if before, again := texts[key]; again {
			require.Equal(t, before, text, "%s came again", key)
			continue
		}
		texts[key] = text
		for thing := range strings.FieldsSeq(text) {
			keys[thing] = append(keys[thing], key)
		}
	}
	return keys
}

// checkConversations fails unless each top-level session has read in its conversation what it was
// told, every message and the end of every run once: the journal says which lines of a transcript
// count, whatever a killed turn has left there. Trees that have given messages up are left out.
func (w *witness) checkConversations(t *testing.T, arrived map[string][]string) {
	t.Helper()
	s, err := dirstore.View(w.dir)
	require.NoError(t, err)
	read := make(map[string]int)
	for _, ref := range w.transcripts(t, true) {
		if ref.Key.IsSubagent() {
			continue
		}
		for line, err := range session.Committed(s.Transcripts.Read(t.Context(), ref,
			session.LineQuery{Archived: true})) {
			require.NoError(t, err)
			if line.Message.Role == session.MessageUser {
				read[line.Message.ID]++
				require.Equal(t, 1, read[line.Message.ID], "%s has read %s again", ref.Key,
					line.Message.ID)
			}
		}
	}
	for thing, root := range w.owed {
		if !mayBeStopped(root) && len(arrived[apologyTo(root)]) == 0 {
			require.Equal(t, 1, read[thing], "%s has not read %s", root, thing)
		}
	}
	require.NoError(t, s.Close())
}

// transcripts returns those that are not archived, or all of them. Whose one is a file says of
// itself in its first line.
func (w *witness) transcripts(t *testing.T, archived bool) (refs []session.Ref) {
	t.Helper()
	fsys, dir := disk.At(w.dir), filepath.Join(w.dir, "sessions")
	agents, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	for _, a := range agents {
		files, err := fsys.ReadDir(filepath.Join(dir, a.Name()))
		require.NoError(t, err)
		for _, f := range files {
			if filepath.Ext(f.Name()) == ".jsonl" ||
				archived && strings.Contains(f.Name(), ".jsonl.deleted.") {
				refs = append(refs, ownerOf(t, fsys, filepath.Join(dir, a.Name(), f.Name())))
			}
		}
	}
	return refs
}

// ownerOf returns whose transcript a file is.
func ownerOf(t *testing.T, fsys disk.FS, path string) session.Ref {
	t.Helper()
	f, err := fsys.OpenFile(path, os.O_RDONLY)
	require.NoError(t, err)
	line, err := bufio.NewReader(io.NewSectionReader(f, 0, math.MaxInt64)).ReadBytes('\n')
	require.NoError(t, err, path)
	require.NoError(t, f.Close())
	var head struct {
		Transcript struct{ Key, SessionID string }
	}
	require.NoError(t, json.Unmarshal(line, &head), path)
	k, err := session.Parse(head.Transcript.Key)
	require.NoError(t, err, path)
	return session.Ref{Key: k, SessionID: head.Transcript.SessionID}
}
