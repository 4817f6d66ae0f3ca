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
		for i := range src.NumField() {
			if !src.Type().Field(i).IsExported() {
				return
			}
		}
		for i := range src.NumField() {
			copyTo(dst.Field(i), src.Field(i))
		}
	default:
		dst.Set(src)
	}
}
