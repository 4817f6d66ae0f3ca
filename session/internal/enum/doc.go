// Package enum reads and writes the words of small enumerations, for package session and the
// packages below it.
package enum
