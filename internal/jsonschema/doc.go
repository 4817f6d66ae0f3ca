// Package jsonschema derives the JSON Schema of a Go type, as far as tools and typed results need
// it.
//
//	struct         object; json tags name the properties, doc tags describe them
//	pointer        the schema of what it points to; the property is not required
//	slice, array   array
//	map[string]T   object with additional properties
//	any            any value
//
// # Where to begin
//
// For and Of in schema.go are the entry points. typeSchema has one case for each kind of type.
package jsonschema
