package tree

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

// repairScene returns a tree with a run that was told to answer again.
func repairScene(t *testing.T) *scene {
	t.Helper()
	s := newScene()
	for _, c := range []string{
		"open", "spawn top a", "grant a", "done a say=x refuse=bad", "spawn top b",
	} {
		s.run(c)
	}
	require.EqualValues(t, 1, s.tree.Run(s.names["a"]).Repairs)
	return s
}

// A repair neither delays the steers of its requester nor is a message of a session.
func TestRepairIsNotASteer(t *testing.T) {
	s := repairScene(t)
	require.Empty(t, s.tree.Run(s.names["a"]).Steers)
}

// A journal in which a run has a repair that no answer asked for, or more than two, is corrupt.
func TestRepairsThatCannotBe(t *testing.T) {
	repair := func(s *scene, name string, class Class) Fact {
		f := posted(s.now, s.tree.Run(s.names[name]), class, "", "x", top)
		f.Flags, f.Own().From = FlagRepair, session.Key{}
		return f
	}
	for name, falsify := range map[string]func(*scene) Fact{
		"of the top-level session": func(s *scene) Fact { return repair(s, "top", Control) },
		"of a run without an answer": func(s *scene) Fact {
			return repair(s, "b", Control)
		},
		"of a message": func(s *scene) Fact { return repair(s, "a", User) },
		"within a turn": func(s *scene) Fact {
			s.run("grant a")
			return repair(s, "a", Control)
		},
		"a third one": func(s *scene) Fact {
			s.run("grant a")
			s.run("done a say=x refuse=bad")
			return repair(s, "a", Control)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := repairScene(t)
			f := falsify(s)
			var corrupt *CorruptError
			require.ErrorAs(t, s.tree.Apply(&f), &corrupt)
		})
	}
}
