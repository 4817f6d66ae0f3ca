package session

import (
	"errors"
	"fmt"
)

// A Lineage is where a session stands in its tree. It is written once, when the session is made, and is never inferred from a key or
// from a link between chats. The zero Lineage is nobody's.
type Lineage struct {
	Key    Key  `json:"key"`
	Root   Key  `json:"root"`            // the top-level session of the tree, Key itself for that session
	Parent Key  `json:"parent,omitzero"` // zero for the root
	Depth  int  `json:"depth"`           // how many sessions are above: 0 for the root
	Role   Role `json:"role"`            // as of when the session was made
}

// ErrCorruptLineage is what every *[LineageError] is, but one for a missing record, which is [ErrNotFound].
var ErrCorruptLineage = errors.New("session: corrupt lineage")

// A LineageError says whose lineage cannot be true, and why.
type LineageError struct {
	Key     Key
	Reason  string
	Missing bool // there is no record
}

// Error names the key and the reason.
func (e *LineageError) Error() string {
	return fmt.Sprintf("session: lineage of %q: %s", e.Key, e.Reason)
}

// Is reports whether target is [ErrNotFound], for a missing record, or else [ErrCorruptLineage].
func (e *LineageError) Is(target error) bool {
	if e.Missing {
		return target == ErrNotFound
	}
	return target == ErrCorruptLineage
}

// Top returns the lineage of a top-level session. The key of a sub-agent is refused with [ErrNotFound]: a sub-agent has a record or
// no rights.
func Top(key Key) (Lineage, error) {
	switch {
	case !key.IsValid():
		return Lineage{}, &LineageError{Key: key, Reason: "no session"}
	case key.IsSubagent():
		return Lineage{}, &LineageError{Key: key, Reason: "a sub-agent without a record", Missing: true}
	}
	return Lineage{Key: key, Root: key, Role: RoleMain}, nil
}

// Child returns the lineage of a session that l starts, with the role that maxSpawnDepth gives it. The key must be a sub-agent's or an
// external harness's; its depth is one more than that of l, which must not be less than the key itself says.
func (l Lineage) Child(key Key, maxSpawnDepth int) (Lineage, error) {
	if err := l.Validate(); err != nil {
		return Lineage{}, err
	}
	depth := l.Depth + 1
	child := Lineage{Key: key, Root: l.Root, Parent: l.Key, Depth: depth, Role: RoleAt(depth, maxSpawnDepth)}
	return child, child.Validate()
}

// Validate returns a *[LineageError] if l cannot be true of any session, whatever the records of the others say.
func (l Lineage) Validate() error {
	if reason := l.fault(); reason != "" {
		return &LineageError{Key: l.Key, Reason: reason}
	}
	return nil
}

func (l Lineage) fault() string {
	switch {
	case !l.Key.IsValid():
		return "no session"
	case !l.Root.IsValid() || l.Root.IsSubagent():
		return fmt.Sprintf("root %q is no top-level session", l.Root)
	case l.Depth < l.Key.Depth():
		return fmt.Sprintf("depth %d is less than the %d that the key says", l.Depth, l.Key.Depth())
	}
	if l.Parent.IsZero() {
		return l.topFault()
	}
	switch {
	case !l.Key.IsSubagent() && l.Key.Kind() != KindACP:
		return "a parent, but the key is no sub-agent's"
	case !l.Parent.IsValid():
		return fmt.Sprintf("parent %q is no session", l.Parent)
	case l.Parent == l.Key || l.Root == l.Key:
		return "a cycle: the session is above itself"
	case l.Depth < 1:
		return fmt.Sprintf("depth %d below a parent", l.Depth)
	case (l.Depth == 1) != (l.Parent == l.Root):
		return fmt.Sprintf("depth %d, parent %q and root %q disagree", l.Depth, l.Parent, l.Root)
	case l.Role != RoleOrchestrator && l.Role != RoleLeaf:
		return fmt.Sprintf("role %s of a sub-agent", l.Role)
	}
	return ""
}

// topFault is fault for a lineage without a parent.
func (l Lineage) topFault() string {
	switch {
	case l.Key.IsSubagent():
		return "a sub-agent without a parent"
	case l.Root != l.Key:
		return fmt.Sprintf("root %q, but no parent", l.Root)
	case l.Depth != 0:
		return fmt.Sprintf("depth %d without a parent", l.Depth)
	case l.Role != RoleMain:
		return fmt.Sprintf("role %s of a top-level session", l.Role)
	}
	return ""
}

// Trace returns the lineage of key after checking it against the records of every session above it, each of which find returns. A
// top-level session needs no record. It returns a *[LineageError] that is [ErrNotFound] if the record of a sub-agent is missing, and
// [ErrCorruptLineage] if the records contradict each other; a cycle among them is such a contradiction and says so. An error of find is
// returned wrapped.
func Trace(key Key, find func(Key) (l Lineage, ok bool, err error)) (Lineage, error) {
	first, err := lookup(key, find)
	if err != nil {
		return Lineage{}, err
	}
	chain := []Lineage{first} // from the session up to the root
	seen := map[Key]bool{key: true}
	for at := first; !at.Parent.IsZero(); chain = append(chain, at) {
		if seen[at.Parent] {
			return Lineage{}, &LineageError{Key: key, Reason: fmt.Sprintf("a cycle: %q is above itself", at.Parent)}
		}
		seen[at.Parent] = true
		if at, err = lookup(at.Parent, find); err != nil {
			return Lineage{}, err
		}
	}
	for i, above := range chain[1:] {
		if below := chain[i]; above.Depth+1 != below.Depth || above.Root != below.Root {
			return Lineage{}, &LineageError{Key: below.Key, Reason: fmt.Sprintf("depth %d below root %q, but its parent %q has depth %d below %q",
				below.Depth, below.Root, above.Key, above.Depth, above.Root)}
		}
	}
	return first, nil
}

// lookup finds and checks one record.
func lookup(key Key, find func(Key) (Lineage, bool, error)) (Lineage, error) {
	l, ok, err := find(key)
	switch {
	case err != nil:
		return Lineage{}, fmt.Errorf("session: lineage of %q: %w", key, err)
	case !ok:
		return Top(key)
	case l.Key != key:
		return Lineage{}, &LineageError{Key: key, Reason: fmt.Sprintf("the record is that of %q", l.Key)}
	}
	return l, l.Validate()
}
