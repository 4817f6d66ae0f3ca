// Package sender writes the line above a message that says who speaks, and sees to it that no other
// line of a message passes for one. It decides only.
package sender
