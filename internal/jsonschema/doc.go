// Package jsonschema derives the JSON Schema of a Go type, as far as tools and typed results need
// it, and checks JSON values against a schema: one that was derived, or one that a caller wrote.
//
//	struct         object; json tags name the properties, doc tags describe them
//	pointer        the schema of what it points to; the property is not required
//	slice, array   array
//	map[string]T   object with additional properties
//	any            any value
//
// What is wrong with a value is told in sentences for a model, with the member and what is wanted.
// Every schema and every value is checked in bounded time and depth, whatever they hold.
//
// # Where to begin
//
// For and Of in schema.go derive: typeSchema has one case for each kind of type. Compile in
// compile.go reads a schema, with one method for each family of keywords in keywords.go, and
// Schema.Validate in validate.go checks a value.
package jsonschema
