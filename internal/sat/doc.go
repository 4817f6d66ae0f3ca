// Package sat adds and converts integers that saturate where the ordinary operators wrap around.
package sat
