// Package vectors reads rows of facts for tests. A row is an input with the output that the field's
// reference system was seen to give. A package keeps its rows in testdata/vectors, one JSON array
// in each file.
package vectors
