package agentctx

import "fmt"

// A Mode is how much of the prompt there is.
type Mode uint8

const (
	// Auto leaves the choice to the next lower [Spec], and in the end to the
	// session's key: Full at the top, Minimal for sub-agents and cron.
	Auto Mode = iota
	// Full is every section.
	Full
	// Minimal is what a worker needs: identity, tooling, safety, workspace,
	// sandbox, reasoning format, project context, sub-agent context, date and
	// runtime; and skills if the spec names some.
	Minimal
	// None is the identity line alone.
	None
)

var modeNames = [...]string{Auto: "auto", Full: "full", Minimal: "minimal", None: "none"}

// String returns "auto", "full", "minimal" or "none".
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// MarshalText returns the mode's name, or an error for a value that is not
// one of the four.
func (m Mode) MarshalText() ([]byte, error) { return marshalName("Mode", modeNames[:], int(m)) }

// UnmarshalText accepts exactly the names that String returns.
func (m *Mode) UnmarshalText(text []byte) error {
	i, err := unmarshalName("Mode", modeNames[:], text)
	if err == nil {
		*m = Mode(i)
	}
	return err
}
