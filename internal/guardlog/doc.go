// Package guardlog lets no log line break the code that writes it, nor show a credential: it wraps
// the Logger of a caller in a Handler that contains panics and masks texts.
package guardlog
