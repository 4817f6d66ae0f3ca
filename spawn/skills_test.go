package spawn_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// C3: a session keeps the skills of the first turn that has some, over later turns and processes,
// also if the process dies in that turn. It keeps no others.
func TestSkillsOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrashWorld(t)
		kept := func(version string) *spawn.SkillSet {
			return &spawn.SkillSet{
				Version: version, Skills: []spawn.SkillRef{{Name: "pdf", Digest: "d-" + version}},
			}
		}
		var got []*spawn.SkillSet
		take := spawntest.Do(func(_ context.Context, turn *spawn.TurnInput) error {
			got = append(got, turn.Skills)
			set := *kept(strconv.Itoa(len(got)))
			err := turn.KeepSkills(set)
			set.Skills[0].Name = "changed by the caller"
			return err
		})
		w.runner.On(topKey.String(),
			spawntest.Play{take, spawntest.Delay(time.Minute), spawntest.Reply("one")},
			spawntest.Play{take, spawntest.Reply("two")},
		)
		s, kill := w.process(new(clock))
		w.post(s, "1")
		time.Sleep(time.Second)
		kill()
		s, _ = w.process(new(clock))
		w.answered("one", time.Minute+time.Second)
		w.post(s, "2")
		w.answered("two", time.Second)
		require.Equal(t, []*spawn.SkillSet{nil, kept("1"), kept("1")}, got)
	})
}

// C3: a set that the journal cannot keep is refused with its field, and one after the turn too.
func TestSkillsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrashWorld(t)
		long := strings.Repeat("x", 1001)
		var turn *spawn.TurnInput
		w.runner.On(topKey.String(), spawntest.Play{
			spawntest.Do(func(_ context.Context, in *spawn.TurnInput) error {
				turn = in
				for field, set := range map[string]spawn.SkillSet{
					"skills":         {Skills: make([]spawn.SkillRef, spawn.MaxSkills+1)},
					"skills.version": {Version: "\xff"},
					"skills.name":    {Skills: []spawn.SkillRef{{Name: "a"}, {Name: long}}},
					"skills.digest":  {Skills: []spawn.SkillRef{{Name: "a", Digest: long}}},
				} {
					var bad *spawn.InputError
					require.ErrorAs(t, in.KeepSkills(set), &bad, field)
					require.Equal(t, field, bad.Field)
				}
				return nil
			}), spawntest.Reply("done"),
		})
		s, _ := w.process(new(clock))
		w.post(s, "1")
		w.answered("done", time.Second)
		require.ErrorIs(t, turn.KeepSkills(spawn.SkillSet{}), spawn.ErrStale)
	})
}
