package clone

import "reflect"

// Of returns a copy of v that shares no slice, map or pointer with it, as far as the type shows its
// fields. A struct with an unexported field, such as a time, is copied as a value. Functions,
// channels and what an interface holds are shared. The data must not contain themselves.
func Of[T any](v T) T {
	var c T
	copyTo(reflect.ValueOf(&c).Elem(), reflect.ValueOf(&v).Elem())
	return c
}

// copyTo sets dst to a copy of src.
func copyTo(dst, src reflect.Value) {
	switch src.Kind() {
	case reflect.Slice:
		if src.IsNil() {
			return
		}
		dst.Set(reflect.MakeSlice(src.Type(), src.Len(), src.Len()))
		for i := range src.Len() {
			copyTo(dst.Index(i), src.Index(i))
		}
	case reflect.Array:
		for i := range src.Len() {
			copyTo(dst.Index(i), src.Index(i))
		}
	case reflect.Map:
		if src.IsNil() {
			return
		}
		dst.Set(reflect.MakeMapWithSize(src.Type(), src.Len()))
		for k, v := range src.Seq2() {
			elem := reflect.New(v.Type()).Elem()
			copyTo(elem, v)
			dst.SetMapIndex(k, elem)
		}
	case reflect.Pointer:
		if src.IsNil() {
			return
		}
		dst.Set(reflect.New(src.Type().Elem()))
		copyTo(dst.Elem(), src.Elem())
	case reflect.Struct:
		dst.Set(src) // what is not exported comes along
		if !isPlain(src.Type()) {
			return
		}
		for i := range src.NumField() {
			copyTo(dst.Field(i), src.Field(i))
		}
	default:
		dst.Set(src)
	}
}

// isPlain reports whether all fields of a struct are exported.
func isPlain(t reflect.Type) bool {
	for f := range t.Fields() {
		if !f.IsExported() {
			return false
		}
	}
	return true
}

// Bytes returns about how many bytes a copy of v keeps: those of v itself, and those of the strings
// and of the elements that it leads to. Strings that share memory count each. Of a struct with an
// unexported field what it leads to is shared, and only its strings count.
func Bytes[T any](v T) int {
	return int(reflect.TypeFor[T]().Size()) + behind(reflect.ValueOf(&v).Elem())
}

// behind returns what v leads to, without v itself, which may be a part of something.
func behind(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice {
			n = v.Len() * int(v.Type().Elem().Size())
		}
		for i := range v.Len() {
			n += behind(v.Index(i))
		}
	case reflect.Map:
		n = v.Len() * int(v.Type().Key().Size()+v.Type().Elem().Size())
		for k, elem := range v.Seq2() {
			n += behind(k) + behind(elem)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			n = int(v.Type().Elem().Size()) + behind(v.Elem())
		}
	case reflect.Struct:
		plain := isPlain(v.Type())
		for _, f := range v.Fields() {
			if plain || f.Kind() == reflect.String {
				n += behind(f)
			}
		}
	default: // it leads to nothing, or to what a copy shares
	}
	return n
}
