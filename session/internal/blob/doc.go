// Package blob cuts the bytes of a file into chunks, and puts them together again. It is for
// implementations of session.Files over an engine that keeps values of a limited size.
//
//	Copy      a reader --> whole chunks, and the last one
//	NewReader chunks --> a reader, which sees that they are the bytes that were put
//
// Nothing here knows an engine. Begin in blob.go.
package blob
