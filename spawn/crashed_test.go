package spawn_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

const apology = "Sorry."

func newCrashWorld(t *testing.T) *clockWorld {
	w := newClockWorld(t)
	w.cfg.Apology = apology
	return w
}

// turnsOf returns how many turns of the top-level session the Runner was called for.
func (w *clockWorld) turns() (n int) {
	for _, c := range w.runner.Calls() {
		if c.Session == topKey {
			n++
		}
	}
	return n
}

// crash ends a process of its own while the turn that begins in it is under way.
func (w *clockWorld) crash() {
	w.t.Helper()
	before := w.turns()
	_, kill := w.process(new(clock))
	synctest.Wait()
	require.Equal(w.t, before+1, w.turns(), "the turn is tried again")
	kill()
}

// 2.8: a turn that a crash interrupted is owed, also if it has nothing to read: here it was to tell
// that a silent child had ended.
func TestCrashedTurnWithoutInputsIsOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrashWorld(t)
		w.runner.On("quiet", spawntest.Play{spawntest.Delay(time.Minute), spawntest.Silent()})
		w.runner.On(
			topKey.String(),
			spawntest.Play{
				spawntest.Spawn(spawn.Request{Task: "quiet", Announce: true}),
				spawntest.Yield(spawn.JoinOptions{}),
			},
			spawntest.Play{spawntest.Delay(time.Minute), spawntest.Reply("over")},
		)
		s, kill := w.process(new(clock))
		w.post(s, "1")
		time.Sleep(90 * time.Second)
		require.Equal(t, 2, w.turns())
		kill()
		w.process(new(clock))
		w.answered("over", time.Minute+time.Second)
	})
}

// 2.8: a message whose turn kills the process is given up after three attempts, and the person is
// told. A message that came later has attempts of its own.
func TestMessageThatKillsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrashWorld(t)
		w.runner.On("", spawntest.Play{spawntest.Delay(time.Hour)})
		s, kill := w.process(new(clock))
		w.post(s, "deadly")
		kill()
		w.crash()
		s, kill = w.process(new(clock))
		synctest.Wait()
		require.Equal(t, 3, w.turns())
		w.post(s, "later")
		kill()

		w.runner.On("", spawntest.Play{spawntest.Reply("re")})
		w.process(new(clock))
		w.answered(apology, time.Second)
		w.answered("re", time.Second)
		calls := w.runner.Calls()
		require.Len(t, calls, 4)
		require.Equal(t, "later", calls[3].Inputs[0].Text)
		require.Len(t, calls[3].Inputs, 1)
		w.quiet()
	})
}

// The log of the process that finds them says which turns were cut, each once, and which messages
// are given up.
func TestCrashesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrashWorld(t)
		var log lockedLog
		w.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w.runner.On("child", spawntest.Play{spawntest.Delay(time.Hour)})
		w.runner.On("", spawntest.Play{
			spawntest.Spawn(spawn.Request{Task: "child", Key: "one", Announce: true}),
			spawntest.Delay(time.Hour),
		})
		said := func() (lines []string) {
			synctest.Wait()
			for line := range strings.Lines(log.String()) {
				_, line, _ = strings.Cut(line, " ") // the time
				if strings.Contains(line, " turn=") {
					lines = append(lines, strings.TrimSpace(line))
				}
			}
			slices.Sort(lines)
			return lines
		}
		cut := func(more string) string {
			return `level=WARN msg="offshoot: a turn was cut, because its process is gone" session=` +
				more
		}
		s, kill := w.process(new(clock))
		w.post(s, "deadly")
		synctest.Wait()
		runs, err := s.Runs(t.Context(), topKey, topKey, true)
		require.NoError(t, err)
		require.Len(t, runs, 1)
		child := fmt.Sprintf("%s run=%s turn=1", runs[0].Key, runs[0].ID)
		kill()
		require.Empty(t, said())
		want := []string{cut(child), cut(topKey.String() + " turn=1")}
		slices.Sort(want)
		w.crash()
		require.Equal(t, want, said())
		w.crash()
		want = append(want, cut(topKey.String()+" turn=2"))
		slices.Sort(want)
		require.Equal(t, want, said())
		w.runner.On("", spawntest.Play{spawntest.Reply("re")})
		w.process(new(clock))
		w.answered(apology, time.Second)
		want = append(want, cut(topKey.String()+" turn=3"), `level=ERROR msg="offshoot: messages `+
			`are given up, because the process was gone after each attempt at them" session=`+
			topKey.String()+" turn=3 attempts=3")
		slices.Sort(want)
		require.Equal(t, want, said())
	})
}

// quiet fails the test if people hear anything more.
func (w *clockWorld) quiet() {
	w.t.Helper()
	time.Sleep(time.Hour)
	require.Empty(w.t, w.got)
}

// 2.8: attempts are counted from one turn that comes to its end to the next, over snapshots too.
func TestAttemptsAreCountedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrashWorld(t)
		for i := range 3 {
			w.runner.On("", spawntest.Play{spawntest.Delay(time.Hour)})
			s, kill := w.process(new(clock))
			w.post(s, fmt.Sprint(i))
			kill()
			w.crash()
			w.runner.On("", spawntest.Play{spawntest.Reply("re")})
			s, _ = w.process(new(clock))
			w.answered("re", time.Second)
			require.NoError(t, s.Shutdown(t.Context()))
		}
		w.quiet()
	})
}

// 2.8: a shutdown that interrupts a turn is not an attempt, whether the Runner returns in time or
// not: ten deploys in a row lose no message.
func TestShutdownIsNotACrash(t *testing.T) {
	for name, slow := range map[string]spawntest.Step{
		"a Runner that returns":   spawntest.Delay(time.Hour),
		"a Runner that lingers":   spawntest.Linger(spawn.DefaultGrace / 2),
		"a Runner that is cut":    spawntest.Linger(time.Minute),
		"a Runner that is killed": spawntest.Linger(10 * time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCrashWorld(t)
				w.runner.On("", spawntest.Play{slow})
				for i := range 10 {
					s, _ := w.process(new(clock))
					if i == 0 {
						w.post(s, "1")
					}
					synctest.Wait()
					require.Equal(t, i+1, w.turns())
					now, cancel := context.WithCancel(t.Context())
					cancel()
					_ = s.Shutdown(now)
				}
				w.runner.On("", spawntest.Play{spawntest.Reply("re")})
				w.process(new(clock))
				w.answered("re", time.Second)
				w.quiet()
			})
		})
	}
}

// 2.8: Stop gives up a turn that is owed.
func TestStopOfAnOwedTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrashWorld(t)
		w.runner.On("quiet", spawntest.Play{spawntest.Silent()})
		w.runner.On(
			topKey.String(),
			spawntest.Play{
				spawntest.Spawn(spawn.Request{Task: "quiet", Announce: true}),
				spawntest.Yield(spawn.JoinOptions{}),
			},
			spawntest.Play{spawntest.Delay(time.Hour)},
		)
		s, kill := w.process(new(clock))
		w.post(s, "1")
		synctest.Wait()
		require.Equal(t, 2, w.turns())
		kill()
		idle, err := spawn.Open(t.Context(), w.configOver(w.log))
		require.NoError(t, err)
		require.NoError(t, idle.Stop(t.Context(), topKey, topKey, "enough"))
		require.NoError(t, idle.Shutdown(t.Context()))
		w.process(new(clock))
		w.quiet()
		require.Equal(t, 2, w.turns())
	})
}
