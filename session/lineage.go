package session

import (
	"errors"
	"fmt"
)

// A Lineage says where a session stands in its tree. It is recorded once, when the session is made.
// It is never inferred from a key or from a link between chats. The zero Lineage does not belong to
// a session, and [Lineage.Validate] refuses it.
type Lineage struct {
	Key    Key  `json:"key"`
	Root   Key  `json:"root"`            // the top-level session of the tree; for that session Key
	Parent Key  `json:"parent,omitzero"` // zero for the root
	Depth  int  `json:"depth"`           // number of sessions above: 0 for the root
	Role   Role `json:"role"`            // as of when the session was made
}

// ErrCorruptLineage is what errors.Is finds in every *[LineageError], except in one for a missing
// record, in which it finds [ErrNotFound].
var ErrCorruptLineage = errors.New("session: corrupt lineage")

// A LineageError says that the lineage of a session cannot be true, and why.
type LineageError struct {
	Key     Key    // the session
	Reason  string // a short phrase
	Missing bool   // the session is a sub-agent without a record
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

// Top returns the lineage of a top-level session. It returns a *[LineageError] that is
// [ErrNotFound] for the key of a sub-agent, since a sub-agent without a record does not have
// rights.
func Top(key Key) (Lineage, error) {
	switch {
	case !key.IsValid():
		return Lineage{}, &LineageError{Key: key, Reason: "not a session"}
	case key.IsSubagent():
		return Lineage{}, &LineageError{
			Key: key, Reason: "a sub-agent without a record", Missing: true,
		}
	}
	return Lineage{Key: key, Root: key, Role: RoleMain}, nil
}

// Child returns the lineage of a session that l starts, one level below l. Its role is the one that
// maxSpawnDepth gives at that depth. The key must be that of a sub-agent or of an external harness,
// and must not claim a greater depth. If l or the result is not valid, the error is that of
// [Lineage.Validate].
func (l Lineage) Child(key Key, maxSpawnDepth int) (Lineage, error) {
	if err := l.Validate(); err != nil {
		return Lineage{}, err
	}
	depth := l.Depth + 1
	child := Lineage{
		Key: key, Root: l.Root, Parent: l.Key, Depth: depth, Role: RoleAt(depth, maxSpawnDepth),
	}
	return child, child.Validate()
}

// Validate returns a *[LineageError] if l contradicts itself. It does not look at the records of
// other sessions, as [Trace] does.
func (l Lineage) Validate() error {
	if reason := l.fault(); reason != "" {
		return &LineageError{Key: l.Key, Reason: reason}
	}
	return nil
}

// fault returns what is wrong with l, "" if nothing is.
func (l Lineage) fault() string {
	switch {
	case !l.Key.IsValid():
		return "not a session"
	case !l.Root.IsValid() || l.Root.IsSubagent():
		return fmt.Sprintf("root %q is not a top-level session", l.Root)
	case l.Depth < l.Key.Depth():
		return fmt.Sprintf("depth %d is less than the %d that the key says", l.Depth, l.Key.Depth())
	}
	if l.Parent.IsZero() {
		return l.topFault()
	}
	switch {
	case !l.Key.IsSubagent() && l.Key.Kind() != KindACP:
		return "a parent, but the key is not a sub-agent's"
	case !l.Parent.IsValid():
		return fmt.Sprintf("parent %q is not a session", l.Parent)
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

// Trace returns the lineage of the session key, after it has checked the records of every session
// above it. find returns the record of one session, and false if there is none. A top-level session
// does not need a record.
//
// Trace returns a *[LineageError]. The error is [ErrNotFound] if the record of a sub-agent is
// missing, and [ErrCorruptLineage] if records contradict each other, as in a cycle. An error of
// find is returned wrapped.
//
// Trace is for callers that keep lineages in [Record] values. The trees of package spawn keep their
// own records, in their journals.
func Trace(key Key, find func(Key) (l Lineage, ok bool, err error)) (Lineage, error) {
	if find == nil {
		return Lineage{}, &LineageError{Key: key, Reason: "there is no function that finds it"}
	}
	first, err := lookup(key, find)
	if err != nil {
		return Lineage{}, err
	}
	chain := []Lineage{first} // from the session up to the root
	seen := map[Key]bool{key: true}
	for at := first; !at.Parent.IsZero(); chain = append(chain, at) {
		if seen[at.Parent] {
			reason := fmt.Sprintf("a cycle: %q is above itself", at.Parent)
			return Lineage{}, &LineageError{Key: key, Reason: reason}
		}
		seen[at.Parent] = true
		if at, err = lookup(at.Parent, find); err != nil {
			return Lineage{}, err
		}
	}
	for i, above := range chain[1:] {
		if below := chain[i]; above.Depth+1 != below.Depth || above.Root != below.Root {
			reason := fmt.Sprintf("depth %d below root %q, but its parent %q has depth %d below %q",
				below.Depth, below.Root, above.Key, above.Depth, above.Root)
			return Lineage{}, &LineageError{Key: below.Key, Reason: reason}
		}
	}
	return first, nil
}

// lookup returns the record of key from find, after it has checked it by itself.
func lookup(key Key, find func(Key) (Lineage, bool, error)) (Lineage, error) {
	l, ok, err := find(key)
	switch {
	case err != nil:
		return Lineage{}, fmt.Errorf("session: lineage of %q: %w", key, err)
	case !ok:
		return Top(key)
	case l.Key != key:
		reason := fmt.Sprintf("the record is that of %q", l.Key)
		return Lineage{}, &LineageError{Key: key, Reason: reason}
	}
	return l, l.Validate()
}
