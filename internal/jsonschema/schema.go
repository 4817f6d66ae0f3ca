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

// For returns the schema of T. It returns an error for a type that JSON cannot represent, and for a
// type that contains itself.
func For[T any]() (json.RawMessage, error) {
	return Of(reflect.TypeFor[T]())
}

// Of returns the schema of a type. Its errors are those of [For].
func Of(t reflect.Type) (json.RawMessage, error) {
	s, err := typeSchema(t, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

// A schema is the part of JSON Schema that this package uses. Properties keep the order of the
// fields.
type schema struct {
	Type        string     `json:"type,omitempty"`
	Format      string     `json:"format,omitempty"`
	Description string     `json:"description,omitempty"`
	Properties  properties `json:"properties,omitempty"`
	Required    []string   `json:"required,omitempty"`
	Items       *schema    `json:"items,omitempty"`
	Additional  any        `json:"additionalProperties,omitempty"` // false, or a *schema
}

type properties []property

type property struct {
	name   string
	schema *schema
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
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &schema{Type: "integer"}, nil
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
		items, err := typeSchema(t.Elem(), parents)
		return &schema{Type: "array", Items: items}, err
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return nil, fmt.Errorf("%v: the keys of an object are strings", t)
		}
		values, err := typeSchema(t.Elem(), parents)
		return &schema{Type: "object", Additional: values}, err
	case reflect.Struct:
		return structSchema(t, parents)
	}
	return nil, fmt.Errorf("%v has no JSON form", t)
}

func structSchema(t reflect.Type, parents []reflect.Type) (*schema, error) {
	s := &schema{Type: "object", Additional: false, Properties: properties{}}
	if err := s.addFields(t, parents); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *schema) addFields(t reflect.Type, parents []reflect.Type) error {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if inner := pointedTo(f.Type); f.Anonymous && name == "" && inner.Kind() == reflect.Struct {
			if slices.Contains(parents, inner) {
				return recursionError(inner)
			}
			if err := s.addFields(inner, append(parents, inner)); err != nil {
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
		s.Properties = append(s.Properties, property{name, p})
		if !strings.Contains(options, "omit") && f.Type.Kind() != reflect.Pointer {
			s.Required = append(s.Required, name)
		}
	}
	return nil
}

func pointedTo(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}
