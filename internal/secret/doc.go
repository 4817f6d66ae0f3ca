// Package secret masks credentials, and has the one rule for what is shown of errors: whatever a
// callback of the caller failed with is masked and bounded before it is logged, kept or shown.
package secret
