package openclaw

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Schema returns the JSON Schema (draft 2020-12) of what is understood of an openclaw.json, for
// editors and for the checks of others. It is made of the types that a file is read into. What it
// allows can still be a mistake, such as a group of tools that does not exist. The file schema.json
// of this module holds it.
func Schema() []byte {
	s := schemaOf(reflect.TypeFor[document](), "")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "What Offshoot understands of an openclaw.json"
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(s) // maps, lists, texts and numbers
	return b.Bytes()
}

// schemaOf returns the schema of a type with the tag of its field.
func schemaOf(typ reflect.Type, tag reflect.StructTag) map[string]any {
	s := make(map[string]any)
	switch {
	case typ == reflect.TypeFor[modelRef]():
		s["anyOf"] = []any{map[string]any{"type": "string"}, objectSchema(typ)}
	case typ == reflect.TypeFor[anything]():
	case typ.Kind() == reflect.Pointer:
		return schemaOf(typ.Elem(), tag)
	case typ.Kind() == reflect.Struct:
		s = objectSchema(typ)
	case typ.Kind() == reflect.Map:
		s["type"], s["additionalProperties"] = "object", schemaOf(typ.Elem(), "")
	case typ.Kind() == reflect.Slice:
		s["type"], s["items"] = "array", schemaOf(typ.Elem(), "")
	case typ.Kind() == reflect.Bool:
		s["type"] = "boolean"
	case typ == reflect.TypeFor[personID]():
		s["type"] = []any{"string", "number"}
	case typ.Kind() == reflect.String && tag.Get("secret") != "":
		s["type"] = []any{"string", "object"}
	case typ.Kind() == reflect.String:
		s["type"] = "string"
		if words := tag.Get("enum"); words != "" {
			s["enum"] = strings.Split(words, ",")
		}
	default:
		numberSchema(s, typ, tag)
	}
	doc := tag.Get("doc")
	if why := tag.Get("not"); why != "" && why != "-" {
		doc = strings.TrimSpace(doc + " Not taken: " + why + ".")
	}
	if doc != "" {
		s["description"] = doc
	}
	return s
}

// numberSchema sets the type and the range of a number.
func numberSchema(s map[string]any, typ reflect.Type, tag reflect.StructTag) {
	s["type"] = "number"
	least, most, _ := bounds(tag.Get("want"))
	if typ.Kind() == reflect.Int64 {
		s["type"], most = "integer", min(most, maxInteger)
	}
	for name, n := range map[string]float64{"minimum": least, "maximum": most} {
		if !math.IsInf(n, 0) {
			s[name] = json.Number(strconv.FormatFloat(n, 'f', -1, 64))
		}
	}
}

// objectSchema returns the schema of a struct.
func objectSchema(typ reflect.Type) map[string]any {
	properties := make(map[string]any)
	var required []string
	for name, m := range fieldsOf(typ) {
		properties[name] = schemaOf(m.Type, m.Tag)
		if m.Tag.Get("need") != "" {
			required = append(required, name)
		}
	}
	for _, m := range reflect.VisibleFields(typ) {
		if m.Type != reflect.TypeFor[others]() {
			continue
		}
		for name := range strings.FieldsSeq(m.Tag.Get("names")) {
			if name != "*" {
				properties[name] = map[string]any{
					"description": fmt.Sprintf("Not taken: %s.", m.Tag.Get("not")),
				}
			}
		}
	}
	s := map[string]any{"type": "object", "properties": properties}
	if isOwned(typ) {
		s["additionalProperties"] = false
	}
	if len(required) > 0 {
		slices.Sort(required)
		s["required"] = required
	}
	return s
}
