package session

// BindingsRoot returns the root of the log of thread bindings, which are of no one tree. It names no session and [Parse] refuses it,
// so that no input can reach that log.
func BindingsRoot() Key { return Key{"offshoot:bindings"} }

// ParseRoot is [Parse] for implementations of [Journal] that keep roots as text: it also understands the reserved roots. Text that
// comes from a user or a model belongs to Parse.
func ParseRoot(s string) (Key, error) {
	if root := BindingsRoot(); s == root.s {
		return root, nil
	}
	return Parse(s)
}
