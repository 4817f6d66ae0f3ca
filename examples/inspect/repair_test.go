package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A receiver does what the documentation tells it to: it remembers keys and epochs, and drops what
// has a key that it knows or an epoch that is past.
type receiver struct {
	mu      sync.Mutex             // two trees deliver at once
	content map[string]spawn.RunID // by key
	epoch   map[session.Key]uint64 // by tree
	dropped []string               // what was not a repeat
}

func (r *receiver) clone() *receiver {
	return &receiver{content: maps.Clone(r.content), epoch: maps.Clone(r.epoch)}
}

func (r *receiver) deliver(d agent.Delivery) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	root := d.Completion.Run.Root
	if known, ok := r.content[d.Key]; ok && known != d.Completion.Run.ID {
		r.dropped = append(r.dropped, "the key "+d.Key+" again")
	}
	if d.Epoch < r.epoch[root] {
		r.dropped = append(r.dropped, fmt.Sprintf("epoch %d of %s again", d.Epoch, root))
	}
	r.content[d.Key], r.epoch[root] = d.Completion.Run.ID, max(d.Epoch, r.epoch[root])
	return nil
}

// work has a bot spawn and deliver in each chat, and close the directory, a number of times.
func (r *receiver) work(t *testing.T, dir string, lives int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Duration(len(r.content)) * time.Hour) // later than the work before
		for range lives {
			bot(t, dir, r.deliver, func(rt *agent.Runtime) {
				for _, chat := range []session.Key{top, ops} {
					spawnTask(t, rt, chat, agent.Task{Text: "report", Label: "r"})
					wait(time.Minute)
				}
			})
		}
	})
}

// newestLog returns the path of the log of a directory.
func newestLog(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "journal", "0*.wal"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names[len(names)-1]
}

// R10: what is delivered after a repair has a key that was never handed out, and an epoch that is
// not below one that was, wherever the log was damaged, and also if it was removed. A directory
// without damage keeps its keys.
func TestRepairMakesNewKeys(t *testing.T) {
	dir, before := t.TempDir(), &receiver{
		content: make(map[string]spawn.RunID), epoch: make(map[session.Key]uint64),
	}
	before.work(t, dir, 4)
	require.Empty(t, before.dropped)
	require.Len(t, before.content, 8)
	reused := 0
	for eighth := range 9 {
		for _, cut := range []bool{false, true} {
			what := fmt.Sprintf("%d eighths, cut %t", eighth, cut)
			copied, r := filepath.Join(t.TempDir(), "copy"), before.clone()
			require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
			for range 2 { // damage it, repair it, work, and once more
				name := newestLog(t, copied)
				b, err := os.ReadFile(name)
				require.NoError(t, err)
				switch at := len(b) * eighth / 8; {
				case eighth == 8 && !cut: // nothing is damaged
				case at == 0 && cut:
					require.NoError(t, os.Remove(name))
				case cut:
					require.NoError(t, os.WriteFile(name, b[:min(at, len(b)-1)], 0o600))
				default:
					b[at] ^= 1
					require.NoError(t, os.WriteFile(name, b, 0o600))
				}
				must(t, "-state", copied, "-repair")
				require.Equal(t, "nothing is damaged\n", must(t, "-state", copied, "-repair"), what)
				r.work(t, copied, 2)
				require.Empty(t, r.dropped, what)
				require.Contains(t, must(t, "-state", copied, "-verify"), ": 0 bad\n", what)
			}
			for key := range r.content {
				parts := strings.Split(key, ".")
				if eighth == 8 && !cut {
					require.Len(t, parts, 2, "the keys of a directory without damage stay")
				}
				if _, ok := before.content[parts[0]+"."+parts[len(parts)-1]]; len(parts) == 3 && ok {
					reused++
				}
			}
		}
	}
	require.Positive(t, reused, "ordinals came again, and nothing but the mark tells them apart")
}

// An older copy of the directory is restored, and -restored says so. What is delivered after that
// has keys and epochs of its own.
func TestRestoredCopy(t *testing.T) {
	dir, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	r := &receiver{content: make(map[string]spawn.RunID), epoch: make(map[session.Key]uint64)}
	r.work(t, dir, 2)
	require.NoError(t, os.CopyFS(backup, os.DirFS(dir)))
	r.work(t, dir, 2)
	synctest.Test(t, func(t *testing.T) {
		bot(t, backup, r.deliver, func(*agent.Runtime) {
			errs := refused(t, exitError, "-state", backup, "-restored")
			require.Contains(t, errs, "a bot has the directory open, nothing was changed")
		})
	})
	require.Regexp(t, `^what is delivered from now on has "[0-9a-f]{12}" in its key\n$`,
		must(t, "-state", backup, "-restored"))
	require.Equal(t, "nothing is damaged\n", must(t, "-state", backup, "-repair"))
	r.work(t, backup, 2)
	require.Empty(t, r.dropped)
	require.Contains(t, must(t, "-state", backup, "-verify"), ": 0 bad\n")
	refused(t, exitUsage, "-state", dir, "-restored", "-repair")
}

// The logs of a directory with idle trees were removed, or of one without. Every look says so, and
// none that the directory was never opened. -repair mends it, once, and all idle trees are left.
func TestRepairOfRemovedLogs(t *testing.T) {
	for _, idle := range []bool{false, true} {
		dir := t.TempDir()
		r := &receiver{content: make(map[string]spawn.RunID), epoch: make(map[session.Key]uint64)}
		r.work(t, dir, 1)
		if idle {
			rest := filepath.Join(dir, "journal", "idle", "00")
			require.NoError(t, os.MkdirAll(rest, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(rest, "00.wal"), nil, 0o600))
		}
		names, err := filepath.Glob(filepath.Join(dir, "journal", "*.wal"))
		require.NoError(t, err)
		require.Len(t, names, 2, "the log, and the mark of its end")
		for _, name := range names {
			require.NoError(t, os.Remove(name))
		}
		for _, args := range [][]string{{}, {"-verify"}, {"-json"}, {"-tree", top.String()}} {
			code, _, errs := state(t, append([]string{"-state", dir}, args...)...)
			require.Equal(t, exitError, code)
			require.NotContains(t, errs, "never")
			if idle {
				require.Contains(t, errs, "there is an idle log, and the write-ahead log is missing")
			} else {
				require.Contains(t, errs, `but it has "`)
				require.Contains(t, errs, "put the log back, or -repair begins a new one")
			}
		}
		out := must(t, "-state", dir, "-repair")
		require.Contains(t, out, "it was missing: ")
		require.Equal(t, "nothing is damaged\n", must(t, "-state", dir, "-repair"))
		must(t, "-state", dir)
		require.Contains(t, must(t, "-state", dir, "-verify"), ": 0 bad\n")
		r.work(t, dir, 1)
		require.Empty(t, r.dropped)
	}
}

// The text of a repair says what is lost of each kind of thing, and of which file that is not
// known.
func TestRepairText(t *testing.T) {
	broken := errors.New("broken")
	log := dirstore.RepairedFile{
		Path: "journal/1.wal", Bytes: 1, Err: broken, Aside: []string{"journal/1.wal.torn.0"},
	}
	missing := dirstore.RepairedFile{Path: "journal/1.wal", Err: broken}
	transcript := func(name string, lines int, whole bool) dirstore.RepairedFile {
		return dirstore.RepairedFile{
			Path: "sessions/" + name, Bytes: 20, Err: broken, Aside: []string{"a", "b"},
			Transcript: true, Lines: lines, Whole: whole,
		}
	}
	const (
		asideLog = "damaged  journal/1.wal: 1 byte, put aside in journal/1.wal.torn.0: broken\n"
		asideX   = "damaged  sessions/x: 20 bytes, put aside in a, b: broken\n"
		known    = "known to be lost: "
	)
	for name, test := range map[string]struct {
		done dirstore.Repaired
		want string
	}{
		"nothing": {dirstore.Repaired{}, "nothing is damaged\n"},
		"a log": {
			dirstore.Repaired{
				Files: []dirstore.RepairedFile{log}, Unknown: []string{"journal/1.wal"},
				Trees: []dirstore.LostTree{{Root: top, Kept: 16, Lost: 17}, {Root: ops, Lost: 4}},
			},
			asideLog + "lost     agent:main:main: entry 17\n" +
				"lost     agent:ops:main: entries 1 to 4, nothing is left\n1 damaged file repaired\n" +
				known + "entries of 2 trees; 0 lines of 0 transcripts; 0 transcripts as a whole\n" +
				"not known: what else was in journal/1.wal, such as the last entries of any tree\n",
		},
		"a missing log": {
			dirstore.Repaired{
				Files: []dirstore.RepairedFile{missing}, Unknown: []string{"journal/1.wal"},
			},
			"damaged  journal/1.wal: it was missing: broken\n1 damaged file repaired\n" +
				known + "entries of 0 trees; 0 lines of 0 transcripts; 0 transcripts as a whole\n" +
				"not known: what else was in journal/1.wal, such as the last entries of any tree\n",
		},
		"a first line": {
			dirstore.Repaired{Files: []dirstore.RepairedFile{transcript("x", 0, false)}},
			asideX + "1 damaged file repaired\n" + known +
				"entries of 0 trees; 0 lines of 0 transcripts; 0 transcripts as a whole\n",
		},
		"transcripts": {
			dirstore.Repaired{Files: []dirstore.RepairedFile{
				transcript("x", 1, false), transcript("y", 2, false), transcript("z", 0, true),
			}},
			asideX + strings.ReplaceAll(asideX, "/x", "/y") + strings.ReplaceAll(asideX, "/x", "/z") +
				"lost     sessions/x: 1 line\nlost     sessions/y: 2 lines\n" +
				"lost     sessions/z: the whole transcript\n3 damaged files repaired\n" + known +
				"entries of 0 trees; 3 lines of 2 transcripts; 1 transcript as a whole\n",
		},
	} {
		require.Equal(t, test.want, repairText(test.done, true), name)
	}
	require.Equal(t, asideX, repairText(dirstore.Repaired{
		Files: []dirstore.RepairedFile{transcript("x", 0, false)},
	}, false), "a repair that ended early")
	require.Empty(t, repairText(dirstore.Repaired{}, false))
}
