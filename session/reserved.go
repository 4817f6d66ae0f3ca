package session

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// BindingsRoot returns the key under which a [Journal] keeps the log of thread bindings. Bindings
// do not belong to one tree, so their root is not the key of a session. [Parse] refuses its text,
// so that input from outside cannot reach the log.
func BindingsRoot() Key { return Key{"offshoot:bindings"} }

// RepairsRoot returns the key under which a [Journal] keeps the marks of its repairs, see
// [RepairMark]. Like [BindingsRoot], it is not the key of a session.
func RepairsRoot() Key { return Key{"offshoot:repairs"} }

// DeliveredRoot returns the key under which a [Journal] keeps the keys of the deliveries that a
// receiver has acted upon, see
// [github.com/offshoot-sdk/offshoot/announce.Dedupe]. Like [BindingsRoot], it is not the key of a
// session.
func DeliveredRoot() Key { return Key{"offshoot:delivered"} }

// ConversationRoot returns the key that one of several processes claims, see [Owners], while it
// decides which session a message of the conversation goes to, or binds it to another. No two
// conversations share one, and parts of r that differ by what [Route.Clean] changes are the same.
// Nothing is kept under it. Like [BindingsRoot], it is not the key of a session.
func ConversationRoot(r Route) Key {
	r = r.Clean()
	var text []byte
	for _, part := range [...]string{r.Channel, r.Account, r.To, r.Thread} {
		sum := sha256.Sum256([]byte(part)) // so that what separates them is in none
		text = append(text, sum[:]...)
	}
	sum := sha256.Sum256(text)
	return Key{conversationPrefix + hex.EncodeToString(sum[:conversationHash])}
}

const (
	conversationPrefix = "offshoot:conversation:"
	conversationHash   = 16 // bytes
)

// FarewellsRoot returns the key that one of several processes claims, see [Owners], to look after
// bindings that have ended or expired, for all of them. Nothing is kept under it. Like
// [BindingsRoot], it is not the key of a session.
func FarewellsRoot() Key { return Key{"offshoot:farewells"} }

// CopiesRoot returns the key under which a [Journal] keeps the mark of the copy that it is, see
// [CopyMark]. Like [BindingsRoot], it is not the key of a session.
func CopiesRoot() Key { return Key{"offshoot:copies"} }

// ParseRoot parses a key of a session, as [Parse] does, or a reserved root such as [BindingsRoot].
// It is for implementations of [Journal] that store roots as text. Text from a user or a model must
// go through Parse.
func ParseRoot(s string) (Key, error) {
	for _, root := range []Key{
		BindingsRoot(), RepairsRoot(), DeliveredRoot(), FarewellsRoot(), CopiesRoot(),
	} {
		if s == root.s {
			return root, nil
		}
	}
	if hash, ok := strings.CutPrefix(s, conversationPrefix); ok && isHash(hash) {
		return Key{s}, nil
	}
	return Parse(s)
}

// isHash reports whether s is the end of a key that ConversationRoot returns.
func isHash(s string) bool {
	return len(s) == 2*conversationHash && strings.Trim(s, "0123456789abcdef") == ""
}
