package session

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

// CopiesRoot returns the key under which a [Journal] keeps the mark of the copy that it is, see
// [CopyMark]. Like [BindingsRoot], it is not the key of a session.
func CopiesRoot() Key { return Key{"offshoot:copies"} }

// ParseRoot parses a key of a session, as [Parse] does, or a reserved root such as [BindingsRoot].
// It is for implementations of [Journal] that store roots as text. Text from a user or a model must
// go through Parse.
func ParseRoot(s string) (Key, error) {
	for _, root := range []Key{BindingsRoot(), RepairsRoot(), DeliveredRoot(), CopiesRoot()} {
		if s == root.s {
			return root, nil
		}
	}
	return Parse(s)
}
