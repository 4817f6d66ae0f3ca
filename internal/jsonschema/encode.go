package jsonschema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
)

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// Encodes returns an error unless JSON can represent the values of t, as far as the type says: what
// an interface holds, and what a method makes of a value, is known only then. A type may contain
// itself. Refuse returns why a type that t contains is not wanted, or nil.
func Encodes(t reflect.Type, refuse func(reflect.Type) error) error {
	return encodes(t, refuse, make(map[reflect.Type]bool))
}

func encodes(t reflect.Type, refuse func(reflect.Type) error, seen map[reflect.Type]bool) error {
	if seen[t] {
		return nil
	}
	seen[t] = true
	if err := refuse(t); err != nil {
		return err
	}
	if t.Kind() != reflect.Interface && EncodesItself(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return encodes(t.Elem(), refuse, seen)
	case reflect.Map:
		if k := t.Key(); k.Kind() != reflect.String && !k.Implements(textMarshaler) &&
			(k.Kind() < reflect.Int || k.Kind() > reflect.Uintptr) {
			return fmt.Errorf("%v: the keys of an object are strings", t)
		}
		return encodes(t.Elem(), refuse, seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous {
				continue
			}
			if err := encodes(f.Type, refuse, seen); err != nil {
				return fmt.Errorf("field %s: %w", f.Name, err)
			}
		}
		return nil
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("%v has no JSON form", t)
	default:
		return nil
	}
}

// EncodesItself reports whether t or a pointer to it has a method that makes its JSON.
func EncodesItself(t reflect.Type) bool {
	for _, i := range []reflect.Type{jsonMarshaler, textMarshaler} {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}
