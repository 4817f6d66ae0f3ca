// Package contain calls code of the caller's so that whatever it does comes back as an error.
package contain
