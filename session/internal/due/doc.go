// Package due finds the logs that are due. The journals of package session and of the stores below
// it use it.
//
//	Append --> Schedule   a log that is due earlier moves in the heap; one that is due later stays
//	Roots  --> Due        the logs whose place is before t; an early one gets its right place
//
// The names and the sequences of logs are type parameters, because package session imports this
// one.
package due
