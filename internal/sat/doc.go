// Package sat adds numbers and durations that callers and models give. Its results saturate where
// the ordinary operators wrap around.
package sat
