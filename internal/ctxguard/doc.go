// Package ctxguard lets a test kit check the contexts that a program gives to a library that the
// kit has opened.
package ctxguard
