package tree

import (
	"fmt"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// A nameKey is a name, with the session that has given it to one of its children.
type nameKey struct {
	parent session.Key
	name   string
}

// MaxName is how many characters the name of a run has at most.
const MaxName = 64

// reservedNames mean something else where a target is named: all sub-agents, or the last one.
var reservedNames = []string{"all", "last"}

// A NameTakenError refuses a spawn whose name is that of another child of the requester that has
// not ended.
type NameTakenError struct {
	Requester session.Key // who spawns
	Name      string      // what the new child was to be called
	Run       string      // the id of the run that is under way in the session that has the name
	Session   session.Key // the key of that session
}

func (e *NameTakenError) Error() string {
	const format = "spawn: the name %q is that of run %s of %q, which has not ended; " +
		"take another name, or wait for its end"
	return fmt.Sprintf(format, e.Name, e.Run, e.Requester)
}

// nameFault says why name cannot be that of a run; empty: it can, or is empty.
func nameFault(name string) string {
	switch {
	case name == "":
		return ""
	case !hasFormOfName(name):
		return fmt.Sprintf("%s: want a letter from a to z, then at most %d of a-z, 0-9, _ and -",
			text.QuoteWhole(name), MaxName-1)
	case slices.Contains(reservedNames, name):
		return fmt.Sprintf("%q: it is not the name of one sub-agent; take another name", name)
	case hasFormOfID(name):
		return fmt.Sprintf("%q: it has the form of a run id; take another name", name)
	}
	return ""
}

func hasFormOfName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || !(c >= '0' && c <= '9') && c != '_' && c != '-') {
			return false
		}
	}
	return len(s) <= MaxName
}

// hasFormOfID reports whether a name could be the id of a run, which is a UUID.
func hasFormOfID(name string) bool {
	const groups = "8-4-4-4-12"
	var lengths []string
	for part := range strings.SplitSeq(name, "-") {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return false
		}
		lengths = append(lengths, fmt.Sprint(len(part)))
	}
	return strings.Join(lengths, "-") == groups
}

// Name returns what the requester of a session has called it: "" if it has given no name, or has
// given the name to another session since. So a name names one session at most.
func (r *Run) Name() string {
	if r.Unnamed {
		return ""
	}
	return r.Spec.Name()
}

// nameTaken returns an error if the name of a spawn is that of a child which has not ended.
func (t *Tree) nameTaken(c *Spawn) error {
	of := t.names[nameKey{c.Parent, c.Name}]
	if of == nil || of.State.Terminal() {
		return nil
	}
	return &NameTakenError{
		Requester: c.Parent, Name: c.Name, Run: of.RunID(), Session: of.Key(),
	}
}

// giveName has a session that was admitted be the one that its name names.
func (t *Tree) giveName(r *Run) {
	if r.Spec.Name() == "" {
		return
	}
	k := nameKey{r.Spec.Parent, r.Spec.Name()}
	if older := t.names[k]; older != nil {
		older.Unnamed = true
	}
	few.Put(&t.names, k, r)
}

// restoreName notes the name of a session that comes back from an image or from the archive. It
// returns a *CorruptError if another session has the name.
func (t *Tree) restoreName(r *Run, kind Kind) error {
	if r.Name() == "" {
		return nil
	}
	k := nameKey{r.Spec.Parent, r.Spec.Name()}
	if t.names[k] != nil {
		return &CorruptError{kind, r.Spec.Key, "its name is that of another session"}
	}
	few.Put(&t.names, k, r)
	return nil
}

// dropName forgets the name of a session that leaves the tree.
func (t *Tree) dropName(r *Run) {
	if r.Name() != "" {
		delete(t.names, nameKey{r.Spec.Parent, r.Spec.Name()})
	}
}
