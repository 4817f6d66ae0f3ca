// Package jsonschema derives the JSON Schema of Go types, as far as tools and typed results need it.
//
//	struct  -> object; json tags name the properties, doc tags describe them
//	pointer -> what it points to, not required
//	slice   -> array      map[string]T -> object with additional properties      any -> anything
package jsonschema
