// Package vectors reads rows of facts for tests: inputs with the outputs that the field's reference
// system was seen to give. A package keeps its rows in testdata/vectors, one JSON array a file.
package vectors
