package dirstore_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// repair repairs a disk, and fails unless a second repair finds nothing to do.
func repair(t *testing.T, d *disktest.Disk, what string) dirstore.Repaired {
	t.Helper()
	done, err := dirstore.RepairOn(t.Context(), d, "/")
	require.NoError(t, err, what)
	before := diskFiles(t, d, "/")
	again, err := dirstore.RepairOn(t.Context(), d, "/")
	require.NoError(t, err, what)
	require.Zero(t, again, "%s: a second repair has nothing to do", what)
	require.Equal(t, before, diskFiles(t, d, "/"), what)
	return done
}

// verifyRepaired fails unless each tree is as it was after one of its batches, complete if it is
// not among the lost ones, and the store works.
func (c *closedStore) verifyRepaired(
	t *testing.T, s *session.Store, done dirstore.Repaired, what string,
) {
	t.Helper()
	lost := make(map[session.Key]dirstore.LostTree)
	for _, l := range done.Trees {
		require.Less(t, l.Kept, l.Lost, what)
		lost[l.Root] = l
	}
	unnamed := false // a part whose tree cannot be told
	journal := false
	for _, f := range done.Files {
		unnamed = unnamed || f.Bytes > 0
		journal = journal || strings.HasPrefix(f.Path, "journal") &&
			!strings.HasPrefix(f.Path, "journal/members")
	}
	mark, err := session.LastRepair(t.Context(), s.Journal)
	require.NoError(t, err, what)
	require.Equal(t, journal, mark.ID != "", "%s: a damaged journal is marked, and no other", what)
	for root, want := range c.trees {
		got, err := readLog(t.Context(), s.Journal, root)
		require.NoError(t, err, "%s: %s", what, root)
		if slices.Equal(got.texts, want.texts) {
			for _, member := range want.members {
				head := session.Head{Root: root, Last: want.last(), Due: want.due}
				wantMember(t, s, member, head, what)
			}
			continue
		}
		_, named := lost[root]
		require.True(t, named || unnamed, "%s: %s", what, root)
		isGot := func(w []string) bool { return slices.Equal(w, got.texts) }
		require.True(t, len(got.texts) == 0 || slices.ContainsFunc(c.were[root], isGot),
			"%s: %s is as it was after a batch", what, root)
		if named && len(got.texts) > 0 {
			require.Equal(t, lost[root].Kept, got.last(), "%s: %s", what, root)
		}
	}
}

// R10: whatever is done to up to three files of a closed store, Repair makes a store of them that
// opens and passes Verify. Each tree is as it was after one of its batches, and whatever is lost is
// said. ViewIntact shows the same before.
func TestRepairOfAnyDamage(t *testing.T) {
	c := newClosedStore(t)
	names := slices.Sorted(maps.Keys(c.files))
	rng := rand.New(rand.NewPCG(17, 18))
	damaged := 0
	for i := range mutations() / 4 { // each is repaired, and used afterwards
		d := c.disk.Crash(func(int) bool { return true })
		var whats []string
		for n := range 1 + rng.IntN(3) {
			name := names[rng.IntN(len(names))]
			if n == 0 && i%2 == 0 {
				name = "/journal/00000002.wal"
			}
			b := readAll(t, d, name)
			if len(b) == 0 {
				continue
			}
			b, what := mutate(rng, b)
			writeAll(t, d, name, b)
			whats = append(whats, name+": "+what)
		}
		what := strings.Join(whats, ", ")
		before, damage, err := dirstore.ViewIntactOn(d, "/")
		if errors.Is(err, session.ErrFormat) {
			continue // a version byte was changed
		}
		require.NoError(t, err, what)
		_, viewErr := dirstore.ViewOn(d, "/")
		require.Equal(t, viewErr == nil, damage == nil, what)
		seen := make(map[session.Key]*modelLog)
		for root := range c.trees {
			if seen[root], err = readLog(t.Context(), before.Journal, root); err != nil {
				delete(seen, root) // an idle log, which only Repair reads in part
			}
		}
		done, err := dirstore.RepairOn(t.Context(), d.Crash(func(int) bool { return true }), "/")
		if errors.Is(err, session.ErrFormat) {
			continue
		}
		require.NoError(t, err, what)
		require.Equal(t, done, repair(t, d, what), what)
		if len(done.Files) > 0 {
			damaged++
		}
		s := openOn(t, d)
		c.verifyRepaired(t, s, done, what)
		for root, was := range seen {
			now, err := readLog(t.Context(), s.Journal, root)
			require.NoError(t, err, what)
			require.Equal(t, was, now, "%s: %s", what, root)
		}
		for ref := range c.lines {
			end := session.Pos(0)
			if _, err := readTexts(t, s, ref, session.LineQuery{}); assert.NoError(t, err, what) {
				end = endOf(t, s, ref)
			}
			appendTexts(t, s, ref, end, "on")
		}
		for root := range c.trees {
			last, err := readLog(t.Context(), s.Journal, root)
			require.NoError(t, err)
			on := batchOf(time.Time{}, false, "on")
			_, err = s.Journal.Append(t.Context(), root, last.last(), on)
			require.NoError(t, err, what)
		}
		require.NoError(t, s.Close(), what)
		openOn(t, d)
	}
	t.Logf("%d of %d repaired", damaged, mutations()/4)
}

// endOf returns the position of the last line of a transcript, or 0.
func endOf(t *testing.T, s *session.Store, ref session.Ref) (end session.Pos) {
	t.Helper()
	for line, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
		require.NoError(t, err)
		end = line.Pos
	}
	return end
}

// damagedStore returns a disk with a closed store whose log, one idle log, one transcript and mark
// are damaged, and what a repair of it does.
func damagedStore(t *testing.T, c *closedStore) *disktest.Disk {
	t.Helper()
	d := c.disk.Crash(func(int) bool { return true })
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		b := slices.Clone(c.files[name])
		b[len(b)/2] ^= 0x80
		writeAll(t, d, name, b)
	}
	return d.Crash(func(int) bool { return true })
}

// R10: the power is lost at any moment of a repair. Another repair completes it: it leaves the same
// trees and lines, and nothing that was damaged is lost.
func TestRepairIsCompletedAfterPowerLoss(t *testing.T) {
	c := newClosedStore(t)
	d := damagedStore(t, c)
	want := d.Crash(func(int) bool { return true })
	done := repair(t, want, "without a loss")
	require.Greater(t, len(done.Files), 5)
	s := openOn(t, want)
	losses := verifyLosses(t, d, 3, func(after *disktest.Disk, when string) {
		_, err := dirstore.RepairOn(context.Background(), after, "/")
		require.NoError(t, err, when)
		again, err := dirstore.RepairOn(context.Background(), after, "/")
		require.NoError(t, err, when)
		require.Zero(t, again, when)
		got := openOn(t, after)
		for root := range c.trees {
			was, err := readLog(t.Context(), s.Journal, root)
			require.NoError(t, err)
			now, err := readLog(t.Context(), got.Journal, root)
			require.NoError(t, err, when)
			require.Equal(t, was, now, when)
		}
		for ref := range c.lines {
			require.Equal(t, lineTexts(t, s, ref), lineTexts(t, got, ref), when)
		}
		var kept []byte
		for name, b := range diskFiles(t, after, "/") {
			if strings.Contains(name, ".torn.") {
				kept = append(kept, b...)
			}
		}
		for name, b := range c.files {
			require.True(t, bytes.Contains(kept, changedPart(b)), "%s: %s", when, name)
		}
	})
	_, err := dirstore.RepairOn(t.Context(), d, "/")
	require.NoError(t, err)
	require.Greater(t, *losses, 50)
}

// changedPart returns the bytes around the one that damagedStore changes.
func changedPart(b []byte) []byte {
	b = slices.Clone(b)
	at := len(b) / 2
	b[at] ^= 0x80
	return b[at-1 : at+2]
}

// R10: Repair takes the lock, needs a Store, and changes nothing in one that is intact.
func TestRepairNeedsTheLock(t *testing.T) {
	dir := t.TempDir()
	_, err := dirstore.Repair(t.Context(), dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries, "nothing was made")
	s := openDir(t, dir)
	appendTexts(t, s, testRef("x"), 0, "one")
	_, err = dirstore.Repair(t.Context(), dir)
	require.ErrorIs(t, err, dirstore.ErrLocked)
	require.NoError(t, s.Close())
	done, err := dirstore.Repair(t.Context(), dir)
	require.NoError(t, err)
	require.Zero(t, done)
	s = openDir(t, dir)
	require.Equal(t, []string{"one"}, lineTexts(t, s, testRef("x")))
	require.NoError(t, s.Close())

	names, err := filepath.Glob(filepath.Join(dir, "journal", "0*.wal"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(names[0], 50))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = dirstore.Repair(ctx, dir)
	require.ErrorIs(t, err, context.Canceled)
}

// repairVariable names the directory that TestRepairInProcess repairs.
const repairVariable = "OFFSHOOT_REPAIR"

// TestRepairInProcess is the process that TestRepairIsCompletedAfterKill kills.
func TestRepairInProcess(t *testing.T) {
	dir := os.Getenv(repairVariable)
	if dir == "" {
		t.Skip("this is the process of another test")
	}
	fmt.Fprintln(os.Stdout, "begins")
	_, err := dirstore.Repair(t.Context(), dir)
	require.NoError(t, err)
}

// R10: a process is killed with SIGKILL in the middle of a repair. Another repair completes it.
func TestRepairIsCompletedAfterKill(t *testing.T) {
	c := newClosedStore(t)
	d := damagedStore(t, c)
	whole := d.Crash(func(int) bool { return true })
	want := repair(t, whole, "without a kill")
	s := openOn(t, whole)
	rng := rand.New(rand.NewPCG(19, 20))
	middle, kills := 0, 0
	within := 60 * time.Millisecond // which a repair takes, about: it depends on the machine
	for ; kills < 12 || middle == 0 && kills < 200; kills++ {
		dir := t.TempDir()
		for name, b := range diskFiles(t, d, "/") {
			path := filepath.Join(dir, filepath.FromSlash(name))
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, b, 0o600))
		}
		killRepair(t, dir, time.Duration(rng.Int64N(int64(within))))
		before := len(findTorn(t, dir))
		done, err := dirstore.Repair(t.Context(), dir)
		require.NoError(t, err)
		switch {
		case before == 0: // it had not begun
			within += within / 4
		case len(done.Files) == 0: // it was over
			within = max(within-within/8, time.Millisecond)
		default:
			middle++
		}
		again, err := dirstore.Repair(t.Context(), dir)
		require.NoError(t, err)
		require.Zero(t, again, kills)
		require.GreaterOrEqual(t, len(findTorn(t, dir)), len(want.Files), kills)
		_, bad := verifyDir(t, dir)
		require.Empty(t, bad, kills)
		got := openDir(t, dir)
		for root := range c.trees {
			was, err := readLog(t.Context(), s.Journal, root)
			require.NoError(t, err)
			now, err := readLog(t.Context(), got.Journal, root)
			require.NoError(t, err)
			require.Equal(t, was, now)
		}
		for ref := range c.lines {
			require.Equal(t, lineTexts(t, s, ref), lineTexts(t, got, ref))
		}
		require.NoError(t, got.Close())
	}
	t.Logf("%d of %d kills in the middle", middle, kills)
	require.Positive(t, middle)
}

// killRepair repairs a directory in a process and kills the process some time after it has begun.
func killRepair(t *testing.T, dir string, after time.Duration) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestRepairInProcess$")
	cmd.Env = append(os.Environ(), repairVariable+"="+dir, "GORACE=atexit_sleep_ms=0")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	<-time.After(after)
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()
}

// findTorn returns the .torn files in a directory.
func findTorn(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if strings.Contains(e.Name(), ".torn.") {
			names = append(names, path)
		}
		return err
	}))
	return names
}
