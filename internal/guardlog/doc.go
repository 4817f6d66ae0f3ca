// Package guardlog lets no log line break the code that writes it: it wraps the Logger of a caller
// in a Handler that contains panics.
package guardlog
