package kill

import (
	"bufio"
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// witness remembers what a bot has acknowledged in all its lives, and so must be found again.
type witness struct {
	world world
	dir   string // the bot's state

	mu    sync.Mutex
	last  map[session.Key]session.Seq // appended up to there
	owed  map[string]session.Key      // what must leave the bot, and from which tree
	wrong []string                    // what a turn has found
	sum   totals
	trace compactionTraces // of compactions, seen so far

	views []spawn.TreeView // as of the last checkDisk
}

// totals are for people.
type totals struct {
	appends, stops, interrupted, owed, arrived, trees int
	long                                              int // results that were found in a file
	// runs with attachments, and their directories
	given, places int
	dropped       int // spawns that were refused when files had been put for them

	hits, inLog int // kills in a compaction; of these, those in the log itself
	thefts      int // removals of the lock of a living owner
}

func newWitness(t *testing.T, w world) *witness {
	x := &witness{world: w}
	x.beginState(t)
	return x
}

// beginState begins a new state.
func (w *witness) beginState(t *testing.T) {
	w.dir = filepath.Join(t.TempDir(), "state")
	w.last, w.owed, w.trace = make(map[session.Key]session.Seq), make(map[string]session.Key),
		make(compactionTraces)
}

// readLine hears what the bot tells.
func (w *witness) readLine(line string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	verb, rest, _ := strings.Cut(line, " ")
	what, root, _ := strings.Cut(rest, " ")
	switch verb {
	case "appended":
		seq, err := strconv.ParseUint(what, 10, 64)
		if err != nil {
			return err
		}
		k, err := session.ParseRoot(root)
		if err != nil {
			return err
		}
		w.last[k] = max(w.last[k], session.Seq(seq))
		w.sum.appends++
	case "owed":
		k, err := session.Parse(root)
		w.owed[what] = k
		return err
	case "wrong":
		w.wrong = append(w.wrong, rest)
	case "stopped":
		w.sum.stops++
	case "interrupted":
		w.sum.interrupted++
	}
	return nil
}

// runLife starts the child, listens, and kills it after a while; the last life is let go on until
// it ends. In some lives the lock of the child is removed.
func (w *witness) runLife(t *testing.T, name string, after time.Duration, rng *rand.Rand) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	// Under the race detector a process sleeps for a second before it ends.
	cmd.Env = append(os.Environ(), envDir+"="+w.dir, envLife+"="+name, envWorld+"="+string(w.world),
		"GORACE=atexit_sleep_ms=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	if after == 0 { // a child that does not come to an end fails
		defer time.AfterFunc(2*time.Minute,
			func() { _ = cmd.Process.Signal(syscall.SIGQUIT) }).Stop()
	}
	var steal *theft
	kill := time.AfterFunc(time.Hour, func() {
		if steal != nil {
			steal.killed.Store(true)
		}
		_ = cmd.Process.Kill()
	})
	defer kill.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "alive" && after > 0 {
			w.checkLocked(t, cmd.Process.Pid)
			steal = newTheft(rng, w.dir, cmd.Process, after)
			kill.Reset(after)
		}
		require.NoError(t, w.readLine(lines.Text()), "%q", lines.Text())
	}
	require.NoError(t, lines.Err())
	stolen, err := steal.wait()
	require.NoError(t, err, "life %s: the lock was removed", name)
	if stolen {
		w.sum.thefts++
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if after > 0 && errors.As(err, &exit) && exit.ExitCode() == -1 {
		return
	}
	require.NoError(t, err, "life %s: %s", name, stderr.String())
	require.Zero(t, after, "life %s ended by itself: %s", name, stderr.String())
}

// checkLocked fails unless the directory is the child's, and said to be.
func (w *witness) checkLocked(t *testing.T, pid int) {
	t.Helper()
	_, err := dirstore.Open(w.dir)
	var locked *dirstore.LockedError
	require.ErrorAs(t, err, &locked)
	require.Equal(t, pid, locked.PID)
	require.Equal(t, w.dir, locked.Dir)
}
