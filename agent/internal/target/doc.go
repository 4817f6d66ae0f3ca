// Package target finds the sub-agents that a model or a person means by a number, a word, a name, a
// label or an id, and keeps which list each of them was shown last. It decides only: the caller
// gives it the runs and the time.
//
//	"2", "#2" -> the list that was shown, else the list of now -+
//	"last", "all"                                              |
//	run id, session key                                        |
//	name  ->  label  ->  label as lists show it                |-> runs, or a *FindError with what
//	id of an earlier run  ->  session id                       |   an ambiguous target may mean
//	beginning of a name or a label  ->  beginning of a run id -+
//
// The first line that names something decides: a name hides a label, and what is exact hides what
// only begins so.
package target
