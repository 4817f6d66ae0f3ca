package policy

// A Visibility says which other sessions a session's tools reach. Each includes those before it.
type Visibility uint8

// The visibilities, the narrowest first.
const (
	VisibilityDefault Visibility = iota // [VisibilityTree]
	VisibilitySelf                      // itself
	VisibilityTree                      // what it spawned, and everything below, whatever agent it runs as
	VisibilityAgent                     // the sessions of its own agent
	VisibilityAll                       // every session; those of other agents only where [AgentToAgent] allows
)

var visibilityNames = [...]string{
	VisibilityDefault: "default", VisibilitySelf: "self", VisibilityTree: "tree", VisibilityAgent: "agent", VisibilityAll: "all",
}

// String returns the word for v, such as "tree".
func (v Visibility) String() string { return word(visibilityNames[:], "Visibility", v) }

// MarshalText returns the word for v. A value that is no Visibility is an error.
func (v Visibility) MarshalText() ([]byte, error) {
	return wordText(visibilityNames[:], "visibility", v)
}

// UnmarshalText sets v to the Visibility that text is the word for, in any case and with any space around it.
func (v *Visibility) UnmarshalText(text []byte) error {
	return unword(visibilityNames[:], "visibility", text, v)
}
