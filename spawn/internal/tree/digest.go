package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/offshoot-sdk/offshoot/session"
)

// ErrKeyConflict is what a [*KeyConflictError] is.
var ErrKeyConflict = fmt.Errorf("spawn: the key is that of another request")

// A KeyConflictError refuses a spawn whose key the requester has used for another request.
type KeyConflictError struct {
	Requester session.Key // who spawns
	Key       string      // the spawn key
	Run       string      // the id of the run that has the key
	Session   session.Key // the session key of that run
}

func (e *KeyConflictError) Error() string {
	const format = "spawn: the key %q of %q is that of run %s, which was another request; " +
		"use a key of its own for each request"
	return fmt.Sprintf(format, e.Key, e.Requester, e.Run)
}

// Is reports whether target is [ErrKeyConflict].
func (e *KeyConflictError) Is(target error) bool { return target == ErrKeyConflict }

// digest returns a digest of everything that the requester asked for, so that the same key can be
// told from the same request. It is not a digest of what policy made of that, which may differ from
// one moment to the next. A change of what is written here would make old requests other ones.
func (c *Spawn) digest() string {
	q := &c.Request
	h := sha256.New()
	fmt.Fprintf(h, "%x,%x,%t,%x;", string(c.Task), c.Label, c.Announce, c.Variant)
	fmt.Fprintf(h, "%x,%x,%x,%d,%d;", q.Agent, q.Model, q.Thinking, q.Timeout, uint8(q.Announce))
	fmt.Fprintf(h, "%d,%x,%d;", q.Budget.Tokens, q.Budget.Cost, q.Budget.Turns)
	fmt.Fprintf(h, "%t,%x,%t,%t;", q.Tools == nil, q.Tools, q.RequireSandbox, q.Strict)
	if c.Milestones {
		fmt.Fprint(h, "milestones;")
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// conflict returns an error if a spawn is not the one that ref, which has its key, was made by. A
// run of version 1 has no digest, and every request with its key is the same.
func (c *Spawn) conflict(ref spawnRef) error {
	if ref.Digest == "" || ref.Digest == c.digest() {
		return nil
	}
	return &KeyConflictError{Requester: c.Parent, Key: c.Key, Run: ref.ID, Session: ref.Run}
}

// spawnedBy returns the run that has the key of a spawn. A run of version 1, which has no digest,
// does not say whether a model asked for it, and is that of either.
func (t *Tree) spawnedBy(c *Spawn) (ref spawnRef, ok bool) {
	k := spawnKey{c.Parent, c.Key, c.Request.ByModel}
	if ref, ok = t.spawned[k]; !ok && k.byModel {
		k.byModel = false
		ref, ok = t.spawned[k]
		ok = ok && ref.Digest == ""
	}
	return ref, ok
}
