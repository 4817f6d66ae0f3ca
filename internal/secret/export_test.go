package secret

// What weighs a value, for tests that ask it directly.
var (
	IsNumber = isNumber
	HasDense = hasDense
	IsMixed  = isMixed
	IsWordy  = isWordy
)

// AllFamilies returns the families that are known by how they begin.
func AllFamilies() []Family { return families }

// Has reports whether a byte may stand in the body of a token.
func (f *Family) Has(c byte) bool { return f.Body[c] }

// MaskWithoutSieves is Own.Mask, but follows each value from each place alone.
func (o *Own) MaskWithoutSieves(s string) string {
	p := o.Pass()
	p.sieves.off = true
	return Mask(p.lines(p.values(s, true), true))
}

// A State is one of an automaton, see StatesOf.
type State struct {
	Begin       string // of a value
	Ended, Rest int

	of   *automaton
	node int32
}

// EndsWith reports what the automaton says of two states.
func (s State) EndsWith(other State) bool { return s.of.endsWith(s.node, other.node) }

// StatesOf returns the states of the automaton of some values, which are sorted and begin alike,
// behind each byte of a text.
func StatesOf(values []string, text string) []State {
	a := newAutomaton(plant(values, 0))
	var states []State
	at := int32(0)
	for i := range len(text) {
		at = a.next(at, text[i])
		n := a.nodes[at]
		states = append(states, State{
			text[i+1-int(n.depth) : i+1], int(n.ended), int(n.rest), a, at,
		})
	}
	return states
}
