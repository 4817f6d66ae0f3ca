package kill

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// told is what the parent has heard of all lives.
type told struct {
	dir     string
	last    map[session.Key]session.Seq // appended up to there, acknowledged
	spawned map[string]session.Key      // label to child, acknowledged
	appends int
	stops   int
}

func (w *told) line(t *testing.T, line string) {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "appended":
		seq, root, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(seq, 10, 64)
		require.NoError(t, err)
		k := session.MustParse(root)
		w.last[k] = max(w.last[k], session.Seq(n))
		w.appends++
	case "spawned":
		label, key, _ := strings.Cut(rest, " ")
		w.spawned[label] = session.MustParse(key)
	case "stopped":
		w.stops++
	}
}

// life starts the child, listens, and kills it after a while; a life without end is let go on until it ends.
func (w *told) life(t *testing.T, name string, after time.Duration) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), envDir+"="+w.dir, envLife+"="+name)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	if after == 0 { // a child that never comes to an end is no success
		defer time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) }).Stop()
	}
	kill := time.AfterFunc(time.Hour, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "alive" && after > 0 {
			kill.Reset(after)
		}
		// The last line may be half a line: then nobody heard of it.
		w.line(t, lines.Text())
	}
	require.NoError(t, lines.Err())
	err = cmd.Wait()
	var exit *exec.ExitError
	if after > 0 && errors.As(err, &exit) && exit.ExitCode() == -1 {
		return
	}
	require.NoError(t, err, "life %s: %s", name, stderr.String())
	require.Zero(t, after, "life %s ended by itself: %s", name, stderr.String())
}

// look reads what is on the disk, as a tool would, and fails if anything acknowledged is missing or anything is there that cannot be.
func (w *told) look(t *testing.T, when string) map[session.Key]spawntest.Report {
	t.Helper()
	for f, err := range session.VerifyDir(t.Context(), w.dir) {
		require.NoError(t, err, "%s: %s", when, f.Path)
	}
	s, err := session.ViewDir(w.dir)
	require.NoError(t, err, when)
	heads := make(map[session.Key]session.Seq)
	for h, err := range s.Journal.Roots(t.Context(), session.RootQuery{}) {
		require.NoError(t, err, when)
		heads[h.Root] = h.Last
	}
	reports := make(map[session.Key]spawntest.Report)
	for root, last := range w.last {
		require.GreaterOrEqual(t, heads[root], last, "%s: acknowledged entries of %s are missing", when, root)
		if root == session.BindingsRoot() {
			continue
		}
		reports[root], err = spawntest.Inspect(s.Journal.Read(t.Context(), root, 0))
		require.NoError(t, err, "%s: %s", when, root)
	}
	require.NoError(t, s.Close())
	return reports
}

// delivered returns the keys under which each run was delivered, and the labels of what was.
func (w *told) delivered(t *testing.T) (keys map[string][]string, labels map[string]bool) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(w.dir), deliveries))
	require.NoError(t, err)
	keys, labels = make(map[string][]string), make(map[string]bool)
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, f, 4)
		if !slices.Contains(keys[f[1]], f[0]) {
			keys[f[1]] = append(keys[f[1]], f[0])
		}
		labels[f[2]] = true
	}
	return keys, labels
}

// settle lets the child come to an end and looks at what has become of everything.
func (w *told) settle(t *testing.T) {
	t.Helper()
	w.life(t, "last", 0)
	for root, r := range w.look(t, "at the end") {
		require.Zero(t, r.Live, "%s: runs without an end", root)
		require.Zero(t, r.Open, "%s: turns without an end", root)
		require.Zero(t, r.Unread, "%s: completions that nobody consumed", root)
		require.Zero(t, r.Outbox, "%s: deliveries that did not arrive", root)
	}
	keys, labels := w.delivered(t)
	for run, k := range keys {
		require.Len(t, k, 1, "run %s was delivered under several keys", run)
	}
	lost := 0
	for label := range w.spawned {
		var i int
		_, err := fmt.Sscanf(label, "t%d-", &i)
		require.NoError(t, err)
		if !stopped(i) && !labels[label] {
			lost++
			t.Errorf("the end of %s, a spawn that was acknowledged, was never delivered", label)
		}
	}
	require.Zero(t, lost)
}

// A bot under load, with trees in trees, failures and cascade stops, is killed again and again at moments that nobody chose. What it was told
// is there each time, and in the end everything has ended and was told, once. OFFSHOOT_KILLS says how often, 10 unless set.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	kills := 10
	if s := os.Getenv("OFFSHOOT_KILLS"); s != "" {
		var err error
		kills, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	w := &told{dir: filepath.Join(t.TempDir(), "state"), last: make(map[session.Key]session.Seq), spawned: make(map[string]session.Key)}
	for n := range kills {
		w.life(t, strconv.Itoa(n), time.Duration(1+rng.IntN(400))*time.Millisecond)
		w.look(t, fmt.Sprint("after kill ", n))
		if n%25 == 24 {
			w.settle(t)
		}
	}
	w.settle(t)
	keys, _ := w.delivered(t)
	t.Logf("%d kills: %d appends, %d spawns and %d stops acknowledged, %d runs delivered, %d trees",
		kills, w.appends, len(w.spawned), w.stops, len(keys), len(slices.Collect(maps.Keys(w.last))))
}
