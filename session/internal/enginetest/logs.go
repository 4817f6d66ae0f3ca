//go:build unix

package enginetest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// logsEnv names the directory to which the logs of a fleet go whose test has failed.
const logsEnv = "OFFSHOOT_LOGS"

// A fleetLogs is the directory of what a fleet has logged: a file for each place in it, with the
// logs of all processes that had it, and one of what the test did.
type fleetLogs struct{ dir string }

// newFleetLogs makes the directory, which goes with the test, or is kept where [logsEnv] says.
func newFleetLogs(t testing.TB) fleetLogs {
	t.Helper()
	l := fleetLogs{t.TempDir()}
	t.Cleanup(func() {
		into := os.Getenv(logsEnv)
		if into == "" || !t.Failed() {
			return
		}
		into = filepath.Join(into, filepath.Base(t.Name()))
		_ = os.RemoveAll(into)
		t.Logf("the logs are in %s: %v", into, os.CopyFS(into, os.DirFS(l.dir)))
	})
	return l
}

// processLog is the name of the log of the i-th process.
func processLog(i int) string { return fmt.Sprintf("p%d.log", i) }

// open opens a log, to which the caller adds.
func (l fleetLogs) open(t testing.TB, name string) *os.File {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(l.dir, name),
		os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, "open a log", err)
	return file
}

// say adds a line to the log of the test.
func (l fleetLogs) say(t testing.TB, format string, args ...any) {
	t.Helper()
	file := l.open(t, "test.log")
	defer func() { _ = file.Close() }()
	_, _ = fmt.Fprintf(file, time.Now().Format(logTime)+" TEST "+format+"\n", args...)
}

// logTime is how slog.Default writes the time of a line.
const logTime = "2006/01/02 15:04:05"

// A loggedTurn is a line of a log about a turn whose process was gone.
var loggedTurn = regexp.MustCompile(
	`^(\S+ \S+) (WARN|ERROR) offshoot: .*process.* gone.* session=(\S+) (?:run=\S+ )?turn=(\d+)`)

// A loggedLine is a line of a log.
type loggedLine struct {
	at            time.Time
	text          string // with the name of the log
	session, turn string // of a turn that was cut; empty: it says something else
	givenUp       bool   // its inputs were given up
}

// lines returns the lines of all logs, in order.
func (l fleetLogs) lines(t testing.TB) (all []loggedLine) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(l.dir, "*.log"))
	must(t, "list the logs", err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		must(t, "read a log", err)
		for s := range strings.Lines(string(text)) {
			at, err := time.Parse(logTime, s[:min(len(s), len(logTime))])
			if err != nil {
				continue
			}
			n := loggedLine{at: at, text: filepath.Base(name) + ": " + strings.TrimSpace(s)}
			if m := loggedTurn.FindStringSubmatch(s); m != nil {
				n.session, n.turn, n.givenUp = m[3], m[4], m[2] == "ERROR"
			}
			all = append(all, n)
		}
	}
	slices.SortStableFunc(all, func(a, b loggedLine) int { return a.at.Compare(b.at) })
	return all
}

// evidence returns each turn that was given up, with what the logs have to say of its session and
// of what the test did in the minute before; and how many turns were found cut so many seconds
// after the last kill or stop.
func (l fleetLogs) evidence(t testing.TB) (givenUp []string, cut map[int]int) {
	t.Helper()
	all, cut := l.lines(t), map[int]int{}
	if len(all) == 0 {
		return nil, cut
	}
	killed := all[0].at
	for i, n := range all {
		switch {
		case n.givenUp:
			why := []string{n.session + " turn " + n.turn + " was given up:"}
			for _, before := range all[:i+1] {
				if n.at.Sub(before.at) < time.Minute &&
					(before.session == n.session || before.session == "") {
					why = append(why, before.text[:min(len(before.text), 300)])
				}
			}
			givenUp = append(givenUp, strings.Join(why, "\n\t"))
		case n.session != "":
			cut[int(n.at.Sub(killed).Seconds())]++
		case strings.Contains(n.text, " TEST kill "), strings.Contains(n.text, " TEST stop "):
			killed = n.at
		}
	}
	return givenUp, cut
}

// report logs what was given up, and why, and how many turns were cut.
func (l fleetLogs) report(t testing.TB) {
	t.Helper()
	givenUp, cut := l.evidence(t)
	t.Logf("turns that were cut, by the seconds from the last kill until that was found: %v", cut)
	for _, why := range givenUp {
		t.Log(why)
	}
}
