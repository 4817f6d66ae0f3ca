package tree

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A journal in which a session announces in a turn that it cannot have, or ends such a turn as
// another one, is corrupt.
func TestStepsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		before []string
		of     string
		change func(*Fact)
	}{
		"of the top-level session":       {nil, "top", nil},
		"of a run that has none":         {[]string{"spawn top b", "grant b", "done b yield=all"}, "b", nil},
		"that reads":                     {[]string{"post a text=x"}, "a", func(f *Fact) { f.Ord++ }},
		"while a child is alive":         {[]string{"spawn a c"}, "a", nil},
		"after one":                      {[]string{"post a text=x", "grant a", "done a say=2", "grant a", "post a text=y", "done a say=w"}, "a", nil},
		"during one":                     {[]string{"grant a"}, "a", nil},
		"that ends as a turn":            {[]string{"grant a"}, "", nil},
		"that takes":                     {[]string{"grant a", "post a text=x"}, "taken", nil},
		"that is untouched and answered": {[]string{"grant a", "shutdown"}, "untouched", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			for _, cmd := range append([]string{
				"open", "spawn top a step", "grant a", "done a say=answer",
			}, c.before...) {
				s.run(cmd)
			}
			a := s.tree.Run(s.names["a"])
			var f Fact
			switch c.of {
			case "":
				f = turnEnded(s.now, a, OK, nil, 0, 0, nil)
			case "taken":
				f = taken(s.now, a, a.NextOrd)
			case "untouched":
				f = turnEnded(s.now, a, Interrupted, &Result{}, FlagStep|FlagUntouched, 0, nil)
			default:
				r := s.tree.Run(s.names[c.of])
				f = turnStarted(s.now, r, r.Consumed, s.now+1, Budget{Turns: 1})
				f.Flags = FlagStep
			}
			if c.change != nil {
				c.change(&f)
			}
			var corrupt *CorruptError
			require.ErrorAs(t, s.tree.Apply(&f), &corrupt)
		})
	}
}

// The tree wakes when the time of an announce step is over, and not when that of its run is.
func TestStepWakesTheTree(t *testing.T) {
	s := newScene()
	for _, cmd := range []string{
		"open", "spawn top a step timeout=10s", "grant a", "done a say=answer", "grant a",
	} {
		s.run(cmd)
	}
	require.Equal(t, s.now+int64(s.opt.StepTimeout), s.tree.NextWake())
}
