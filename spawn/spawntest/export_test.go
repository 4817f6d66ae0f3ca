package spawntest

// Violation is the error of [Audit].
type Violation = violation
