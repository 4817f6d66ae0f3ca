package tree

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// What histories reach is counted, so that a rule is not proved by histories that never meet it.

// instantFacts says when something last happened to a session.
type instantFacts map[Kind]int64

// met are the facts that a message to their session is to meet in the same instant.
var met = []Kind{
	StopRequested, RunEnded, ArchiveBegun, Archived, Bound, Unbound, Discarded, Unarchived,
}

// count notes a command and what follows from it.
func (d *driver) count(c Command, err error, facts []Fact) {
	happened := func(format string, args ...any) { d.happened[fmt.Sprintf(format, args...)]++ }
	name := strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", c), "*"), "tree.")
	if happened("command %s", name); err != nil {
		happened("refused %s", name)
	}
	if post, ok := c.(*Post); ok {
		for kind, at := range d.instant[post.To] {
			if at == d.now {
				happened("message at the instant of %v", kind)
			}
		}
	}
	for i := range facts {
		f := &facts[i]
		happened("fact %v", f.Kind)
		switch f.Kind {
		case StopRequested:
			happened("cause %v", f.Cause)
		case RunEnded:
			happened("end %v", f.State)
		case TurnEnded:
			d.countStep(f)
		case Unbound:
			happened("unbound %s", f.Text)
		case Restarted:
			for kind, at := range d.instant[f.Run] {
				if at == d.now {
					happened("run begun at the instant of %v", kind)
				}
			}
		default: // its kind says it all
		}
		if slices.Contains(met, f.Kind) {
			if d.instant[f.Run] == nil {
				d.instant[f.Run] = make(instantFacts)
			}
			d.instant[f.Run][f.Kind] = d.now
		}
	}
}

// stepEnds are the ways in which an announce step is to come to its end.
var stepEnds = []string{
	"said", "silent", "nothing", "failed", "cancelled", "cut", "crashed", "untouched", "taken back",
}

// countStep notes the end of an announce step.
func (d *driver) countStep(f *Fact) {
	var how string
	switch {
	case f.Flags&FlagStep == 0:
		return
	case f.Flags&FlagUntouched != 0:
		how = "untouched"
	case f.Flags&FlagCrashed != 0:
		how = "crashed"
	case f.Flags&FlagCut != 0:
		how = "cut"
	case f.State != OK:
		how = f.State.String()
	case f.Flags&FlagSilent != 0:
		how = "silent"
	case f.Answer == nil || f.Answer.Text == "":
		how = "nothing"
	default:
		how = "said"
	}
	d.happened["step "+how]++
	if r := d.tree.Run(f.Run); r != nil && r.nUser > 0 {
		d.happened["step taken back"]++
	}
}

// checkHappened logs what happened, and fails for what is wanted and did not.
func checkHappened(t *testing.T, happened map[string]int, all bool) {
	t.Helper()
	for _, what := range slices.Sorted(maps.Keys(happened)) {
		t.Logf("%8d %s", happened[what], what)
	}
	if !all {
		return
	}
	for kind := Opened; kind < kinds; kind++ {
		if what := "fact " + kind.String(); happened[what] == 0 {
			t.Errorf("%s did not happen", what)
		}
	}
	for cause := NoCause + 1; cause < causes; cause++ {
		if what := "cause " + cause.String(); happened[what] == 0 {
			t.Errorf("%s did not happen", what)
		}
	}
	for _, what := range []string{"update", "update among replies"} {
		if happened[what] == 0 {
			t.Errorf("no %s happened", what)
		}
	}
	for _, how := range stepEnds {
		if happened["step "+how] == 0 {
			t.Errorf("no announce step was %s", how)
		}
	}
	for _, kind := range met {
		if what := "message at the instant of " + kind.String(); happened[what] == 0 {
			t.Errorf("%s did not happen", what)
		}
	}
	for _, kind := range []Kind{RunEnded, Unbound, Bound} {
		if what := "run begun at the instant of " + kind.String(); happened[what] == 0 {
			t.Errorf("%s did not happen", what)
		}
	}
}
