// Package attach decides on the files that a sub-agent is given: whether their names and encodings
// can be, what the model is told of them, and what a transcript keeps of the call that gives them.
// It reads no file and writes none.
package attach
