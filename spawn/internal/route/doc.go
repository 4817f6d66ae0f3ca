// Package route puts into bytes what a process asks of the process that has a tree, and what that
// answers: operations and errors, each a closed list with names of its own. It decides nothing and
// does no I/O.
//
//	process b                                        process a, which has the tree
//	command -> EncodeRequest -> Owners.Call -> ... -> DecodeRequest -> it does it
//	value, error <- DecodeAnswer <- ...              <- EncodeAnswer <- value, error
//
// The form is JSON. What is added later is a new operation, which a process that does not know it
// refuses, or a field whose absence means what was so before. Each other change is a new [Version].
package route
