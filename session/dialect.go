package session

import "strings"

// A Dialect is the word that a sub-agent's key is written with. Both are understood everywhere.
type Dialect uint8

// The dialects, with the key of a first sub-agent in each.
const (
	DialectSubagent Dialect = iota // agent:<agent>:subagent:<id>
	DialectSpawn                   // agent:<agent>:spawn:<id>
)

var dialectNames = [...]string{DialectSubagent: wordSubagent, DialectSpawn: wordSpawn}

// String returns the word that d writes.
func (d Dialect) String() string { return name(dialectNames[:], "Dialect", d) }

// MarshalText returns the word that d writes.
func (d Dialect) MarshalText() ([]byte, error) { return nameText(dialectNames[:], "dialect", d) }

// UnmarshalText sets d to the Dialect that writes text.
func (d *Dialect) UnmarshalText(text []byte) error {
	return unname(dialectNames[:], "dialect", text, d)
}

// Child returns the key of a sub-agent of k that the given agent runs: agent:<agent>:subagent:<id>, and below a sub-agent the ids of
// k as well, agent:<agent>:subagent:<k's ids>:subagent:<id>. Whatever else k is contributes nothing, nor does the thread that a
// sub-agent is bound to. The id is the caller's; [NewID] makes one. The result is zero for a k that names no session.
func (k Key) Child(agent, id string) Key { return DialectSubagent.Child(k, agent, id) }

// Child is [Key.Child] of parent in the dialect d, that of the ids of parent included.
func (d Dialect) Child(parent Key, agent, id string) Key {
	if int(d) >= len(dialectNames) || !parent.IsValid() || !valid(checkID, lower(id)) {
		return Key{}
	}
	if !parent.IsSubagent() {
		return makeID(agent, d.String(), id)
	}
	var b strings.Builder
	for above := range parent.IDs() {
		b.WriteString(d.String())
		b.WriteByte(':')
		b.WriteString(above)
		b.WriteByte(':')
	}
	b.WriteString(d.String())
	return makeID(agent, b.String(), id)
}
