package tenure

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

var taken = session.Claim{Root: session.Must(session.MainKey("main")), Epoch: 7}

// play plays one history of a lease of 30 s in virtual time. A step is "beat", "beat taken",
// "late beat" (sent 31 s ago), or a time that passes, after which the process looks.
func play(t *testing.T, steps ...string) (story []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var tenure Tenure
		say := func(c Change) {
			line := c.State.String()
			if len(c.Lost) > 0 {
				line += " lost"
			}
			if c.AllOut {
				line += " out"
			}
			require.Equal(t, c.State, tenure.State())
			require.Equal(t, c.State == Acting, tenure.MayAct(time.Now()))
			story = append(story, line)
		}
		for _, step := range steps {
			if d, err := time.ParseDuration(step); err == nil {
				time.Sleep(d)
				say(tenure.Look(time.Now()))
				continue
			}
			l := session.Lease{Until: time.Now().Add(30 * time.Second)}
			if strings.Contains(step, "late") {
				l.Until = l.Until.Add(-31 * time.Second)
			}
			if strings.Contains(step, "taken") {
				l.Taken = []session.Claim{taken}
			}
			say(tenure.Renewed(l, time.Now()))
		}
	})
	return story
}

func TestScenes(t *testing.T) {
	for _, scene := range []struct{ name, steps, want string }{
		{"no lease", "10m", "absent"},
		{"beats", "beat, 10s, beat, 10s, beat, 28s", "acting, acting, acting, acting, acting, acting"},
		{"one second out", "beat, 10s, 1s, beat", "acting, acting, acting, acting"},
		{"31 seconds out", "beat, 31s, beat, 10s", "acting, paused, acting, acting"},
		{"overtaken", "beat, 31s, beat taken", "acting, paused, acting lost"},
		{"ten minutes out", "beat, 31s, 9m, 58s, beat", "acting, paused, paused, absent out, acting"},
		{"the end of the lease is within the margin", "beat, 28999ms, 1ms", "acting, acting, paused"},
		{"just in time", "beat, 29s, 599s, beat", "acting, paused, paused, acting"},
		{"too late without a look", "beat, 29s, beat late, beat", "acting, paused, paused, acting"},
		{"an answer that comes late", "beat, 5s, late beat", "acting, acting, acting"},
		{"begins with a late answer", "late beat, 1s, beat", "paused, paused, acting"},
	} {
		t.Run(scene.name, func(t *testing.T) {
			story := play(t, strings.Split(scene.steps, ", ")...)
			require.Equal(t, scene.want, strings.Join(story, ", "))
		})
	}
}

// A process that beats three times in a lease acts all the time, however short the lease is, and
// also if each answer takes a quarter of it. One beat that is missing does not stop it.
func TestLeasesOfEveryLength(t *testing.T) {
	for _, length := range []time.Duration{
		time.Millisecond, 100 * time.Millisecond, time.Second, 1100 * time.Millisecond,
		3 * time.Second, 30 * time.Second, 24 * time.Hour,
	} {
		t.Run(length.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tenure Tenure
				for range 10 {
					sent := time.Now()
					time.Sleep(length / 4)
					l := session.Lease{Until: sent.Add(length), Length: length}
					require.Equal(t, Change{State: Acting}, tenure.Renewed(l, time.Now()))
					time.Sleep(length/3 - length/4)
					require.True(t, tenure.MayAct(time.Now()))
				}
				time.Sleep(length/3 - length/100)
				require.True(t, tenure.MayAct(time.Now()), "one beat is missing")
				time.Sleep(length/3 + length/100 + time.Microsecond) // the lease ends
				require.Equal(t, Paused, tenure.Look(time.Now()).State)
			})
		})
	}
}

// A lease without a length has the whole margin.
func TestLeaseWithoutALength(t *testing.T) {
	require.Equal(t, Margin, margin(0))
	require.Equal(t, Margin, margin(time.Hour))
}

// A process that did not look for an hour, because it was stopped, may not act, and what it hears
// first does not revive what it has lost.
func TestProcessThatWasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tenure Tenure
		tenure.Renewed(session.Lease{Until: time.Now().Add(30 * time.Second)}, time.Now())
		time.Sleep(time.Hour)
		require.Equal(t, Acting, tenure.State(), "it has not looked")
		require.False(t, tenure.MayAct(time.Now()))
		l := session.Lease{
			Until: time.Now().Add(30 * time.Second), Taken: []session.Claim{taken},
		}
		require.Equal(t, Change{State: Acting, AllOut: true}, tenure.Renewed(l, time.Now()))
		require.True(t, tenure.MayAct(time.Now()))
	})
}

// Next is when Look has news, and not later than a moment after.
func TestNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tenure Tenure
		require.True(t, tenure.Next().IsZero())
		tenure.Renewed(session.Lease{Until: time.Now().Add(30 * time.Second)}, time.Now())
		for _, want := range []State{Paused, Absent} {
			time.Sleep(time.Until(tenure.Next()) - 1)
			require.NotEqual(t, want, tenure.Look(time.Now()).State)
			time.Sleep(time.Nanosecond)
			require.Equal(t, want, tenure.Look(time.Now()).State)
		}
		require.True(t, tenure.Next().IsZero())
	})
}

// A wall clock that ran on while the monotonic one stood still ends the lease.
func TestMachineThatSlept(t *testing.T) {
	begun := time.Now()
	var tenure Tenure
	tenure.Renewed(session.Lease{Until: begun.Add(30 * time.Second)}, begun)
	require.True(t, tenure.MayAct(begun))
	require.False(t, tenure.MayAct(begun.Round(0).Add(time.Minute)))
	for s := range State(4) {
		require.NotEmpty(t, fmt.Sprint(s))
	}
}
