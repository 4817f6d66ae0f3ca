// Package sat adds numbers that callers and models give, without wrapping around.
package sat
