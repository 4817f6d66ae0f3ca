package jsonschema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// For returns the schema of T, as JSON and for checks. It returns an error for a type that JSON
// cannot represent, and for a type that contains itself.
func For[T any]() (json.RawMessage, *Schema, error) {
	return Of(reflect.TypeFor[T]())
}

// Of returns the schema of a type. Its errors are those of [For].
func Of(t reflect.Type) (json.RawMessage, *Schema, error) {
	s, err := typeSchema(t, nil)
	if err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, nil, err
	}
	compiled, err := Compile(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("%v: %w", t, err)
	}
	compiled.typed = true
	return raw, compiled, nil
}

// A schema is the part of JSON Schema that this package uses. Properties keep the order of the
// fields.
type schema struct {
	Type        any        `json:"type,omitempty"` // a string, or a []string
	Format      string     `json:"format,omitempty"`
	Pattern     string     `json:"pattern,omitempty"`
	Description string     `json:"description,omitempty"`
	Properties  properties `json:"properties,omitempty"`
	Required    []string   `json:"required,omitempty"`
	Items       *schema    `json:"items,omitempty"`
	Minimum     *int64     `json:"minimum,omitempty"`
	Maximum     *int64     `json:"maximum,omitempty"`
	MinItems    *int       `json:"minItems,omitempty"`
	MaxItems    *int       `json:"maxItems,omitempty"`
	Additional  any        `json:"additionalProperties,omitempty"` // false, or a *schema
}

type properties []property

type property struct {
	name   string
	schema *schema
	level  int // of embedding
}

// MarshalJSON writes the properties as an object in their order.
func (p properties) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, x := range p {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := json.Marshal(x.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(x.schema)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

var (
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonType = reflect.TypeFor[json.Unmarshaler]()
)

func recursionError(t reflect.Type) error { return fmt.Errorf("%v contains itself", t) }

// typeSchema returns the schema of t. The types that contain t are in parents, outermost first.
func typeSchema(t reflect.Type, parents []reflect.Type) (*schema, error) {
	switch {
	case t == timeType:
		return &schema{Type: "string", Format: "date-time"}, nil
	case t == rawType:
		return &schema{}, nil
	case reflect.PointerTo(t).Implements(jsonType):
		return &schema{}, nil // only the type itself knows which JSON it accepts
	case reflect.PointerTo(t).Implements(textType):
		return &schema{Type: "string"}, nil
	case slices.Contains(parents, t):
		return nil, recursionError(t)
	}
	parents = append(parents, t)
	switch t.Kind() {
	case reflect.String:
		return &schema{Type: "string"}, nil
	case reflect.Bool:
		return &schema{Type: "boolean"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return integerSchema(t, true), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Uintptr:
		return integerSchema(t, false), nil
	case reflect.Float32, reflect.Float64:
		return &schema{Type: "number"}, nil
	case reflect.Interface:
		return &schema{}, nil
	case reflect.Pointer:
		return typeSchema(t.Elem(), parents)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 && t.Kind() == reflect.Slice {
			return &schema{Type: "string", Format: "byte"}, nil
		}
		items, err := elementSchema(t.Elem(), parents)
		s := &schema{Type: "array", Items: items}
		if t.Kind() == reflect.Array {
			s.MinItems, s.MaxItems = new(t.Len()), new(t.Len())
		}
		return s, err
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return nil, fmt.Errorf("%v: the keys of an object are strings", t)
		}
		values, err := elementSchema(t.Elem(), parents)
		return &schema{Type: "object", Additional: values}, err
	case reflect.Struct:
		return structSchema(t, parents)
	}
	return nil, fmt.Errorf("%v has no JSON form", t)
}

// integerSchema returns the schema of an integer. The bounds of 64 bits are not in it: no model
// needs to be told.
func integerSchema(t reflect.Type, signed bool) *schema {
	s := &schema{Type: "integer"}
	if !signed {
		s.Minimum = new(int64(0))
	}
	bits := t.Bits()
	switch {
	case bits == 64:
	case signed:
		s.Minimum, s.Maximum = new(int64(-1)<<(bits-1)), new(int64(1)<<(bits-1)-1)
	default:
		s.Maximum = new(int64(1)<<bits - 1)
	}
	return s
}

// elementSchema returns the schema of an item or of the value of a map, where a nil pointer is
// null.
func elementSchema(t reflect.Type, parents []reflect.Type) (*schema, error) {
	s, err := typeSchema(t, parents)
	if err != nil {
		return nil, err
	}
	if name, ok := s.Type.(string); ok && t.Kind() == reflect.Pointer {
		s.Type = []string{name, "null"}
	}
	return s, nil
}

func structSchema(t reflect.Type, parents []reflect.Type) (*schema, error) {
	s := &schema{Type: "object", Additional: false, Properties: properties{}}
	if err := s.addFields(t, parents, 0); err != nil {
		return nil, err
	}
	return s, nil
}

// add adds a property. A field of an outer struct hides one of a struct that is embedded in it.
func (s *schema) add(p property, required bool) {
	at := slices.IndexFunc(s.Properties, func(x property) bool { return x.name == p.name })
	switch {
	case at < 0:
		s.Properties = append(s.Properties, p)
	case s.Properties[at].level <= p.level:
		return
	default:
		s.Properties[at] = p
		s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return name == p.name })
	}
	if required {
		s.Required = append(s.Required, p.name)
	}
}

func (s *schema) addFields(t reflect.Type, parents []reflect.Type, level int) error {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if inner := pointedTo(f.Type); f.Anonymous && name == "" && inner.Kind() == reflect.Struct {
			if slices.Contains(parents, inner) {
				return recursionError(inner)
			}
			if err := s.addFields(inner, append(parents, inner), level+1); err != nil {
				return err
			}
			continue
		}
		if !f.IsExported() || name == "-" && options == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		p, err := typeSchema(f.Type, parents)
		if err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		p.Description = f.Tag.Get("doc")
		all := strings.Split(options, ",")
		if slices.Contains(all, "string") && isScalar(pointedTo(f.Type).Kind()) {
			p = &schema{
				Type: "string", Description: p.Description, Pattern: quotedPattern(pointedTo(f.Type)),
			}
		}
		optional := f.Type.Kind() == reflect.Pointer ||
			slices.Contains(all, "omitempty") || slices.Contains(all, "omitzero")
		s.add(property{name, p, level}, !optional)
	}
	return nil
}

// isScalar reports whether encoding/json writes a kind as a string where its tag asks for that.
func isScalar(k reflect.Kind) bool {
	return k >= reflect.Bool && k <= reflect.Float64 || k == reflect.String
}

var numberType = reflect.TypeFor[json.Number]()

// quotedPattern returns the pattern of the strings that encoding/json writes for a type whose tag
// asks for strings. It takes "null" in such a string for a null, which would be the zero value.
func quotedPattern(t reflect.Type) string {
	const digits = "(0|[1-9][0-9]*)"
	p, k := reflect.PointerTo(t), t.Kind()
	switch {
	case p.Implements(jsonType), p.Implements(textType):
		return "" // only the type itself knows what it accepts
	case k == reflect.Bool:
		return "^(true|false)$"
	case k >= reflect.Int && k <= reflect.Int64:
		return "^-?" + digits + "$"
	case k >= reflect.Uint && k <= reflect.Uintptr:
		return "^" + digits + "$"
	case k == reflect.String && t != numberType:
		return `^".*"$`
	}
	return "^-?" + digits + `([.][0-9]+)?([eE][+-]?[0-9]+)?$`
}

func pointedTo(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}
