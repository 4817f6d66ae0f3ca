package spawntest

// The errors of the kit, for its own tests.
var (
	ErrDead  = errDead
	ErrFault = errFault
)

// Violation is the error of [Audit].
type Violation = violation
