package openclaw

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/offshoot-sdk/offshoot/announce"
)

// maxInteger is the greatest integer that a number of a file has exactly.
const maxInteger = 1<<53 - 1

// maxText is how many bytes a text of a Config may have.
const maxText = 1_000_000

// A walker reads a file into a document, and keeps what is wrong with it and what is not taken.
type walker struct {
	name    string // of the file
	env     func(name string) (string, bool)
	strict  bool
	errs    FieldErrors
	wrongAt map[string]bool // the paths of the errs, and of all that is around them
	untaken []Note
	doubts  []Note
	written map[string]string // of a text that has variables: how the file has it, by what it says
	types   map[reflect.Type]*members
	moved   map[*value]string // the paths in the file of what migrate has given another name
}

// quote quotes a text of the file as the file has it: what a variable says may be a secret.
func (w *walker) quote(s string) string {
	if written, ok := w.written[strings.TrimSpace(s)]; ok {
		s = written
	}
	return quote(s)
}

// bad adds a mistake in the value of a path.
func (w *walker) bad(v *value, path, format string, args ...any) {
	if w.wrongAt == nil {
		w.wrongAt = make(map[string]bool)
	}
	w.wrongAt[""] = true
	for _, at := range steps.FindAllStringIndex(path, -1) {
		w.wrongAt[path[:at[1]]] = true
	}
	if own, ok := w.moved[v]; ok {
		path = own
	}
	w.errs = append(w.errs, &FieldError{
		File: w.name, Line: v.line, Column: v.column, Path: path,
		Reason: announce.Redact(fmt.Sprintf(format, args...)),
	})
}

// note adds a note about the value of a path.
func (w *walker) note(to *[]Note, line, column int, path, format string, args ...any) {
	*to = append(*to, Note{
		w.name, line, column, path, announce.Redact(fmt.Sprintf(format, args...)),
	})
}

// names are what stands in a path without quotes.
var names = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$-]*$`)

// dot returns the path of a member. It has the name as it is; see shown.
func dot(path, name string) string {
	switch {
	case !names.MatchString(name):
		return path + "[" + strconv.Quote(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

// shown returns a path for people: without the credentials that are names of members, and with long
// names cut.
func shown(path string) string {
	var b strings.Builder
	for _, m := range steps.FindAllStringSubmatch(path, -1) {
		name, inBrackets := m[0], m[1] != ""
		if inBrackets {
			name = m[1]
			if s, err := strconv.Unquote(name); err == nil {
				name = s
			}
		}
		_, notIndex := strconv.Atoi(name)
		isPlain := announce.Redact(name) == name && len(name) <= maxQuoted &&
			strconv.Quote(name) == `"`+name+`"`
		switch {
		case inBrackets && (notIndex == nil && m[1][0] != '"'):
			b.WriteString("[" + name + "]")
		case inBrackets && m[1][0] != '"' && isPlain:
			b.WriteString("[" + name + "]")
		case inBrackets || !isPlain || strings.ContainsRune(name, ' '):
			b.WriteString("[" + quote(name) + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(name)
		}
	}
	return b.String()
}

func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// read sets to to what v says. A tag is that of the field.
func (w *walker) read(v *value, to reflect.Value, tag reflect.StructTag, path string) {
	switch to.Interface().(type) {
	case modelRef:
		if v.kind == kindString {
			primary := to.FieldByName("Primary")
			primary.Set(reflect.New(primary.Type().Elem()))
			w.text(v, primary.Elem(), tag, path)
			return
		}
		if v.kind != kindObject {
			w.bad(v, path, "it is %v, want a name, or an object with primary", v)
			return
		}
	case personID:
		if v.kind == kindNumber {
			if v.num != math.Trunc(v.num) || math.Abs(v.num) > maxInteger {
				w.bad(v, path, "it is %v, which is not kept digit by digit; put the id in quotation "+
					"marks", v)
				return
			}
			to.SetString(strconv.FormatFloat(v.num, 'f', -1, 64))
			return
		}
	case anything:
		return
	}
	switch to.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(to.Type().Elem())
		before := len(w.errs)
		w.read(v, fresh.Elem(), tag, path)
		if len(w.errs) == before {
			to.Set(fresh)
		}
	case reflect.Struct:
		if v.kind != kindObject {
			w.bad(v, path, "it is %v, want an object", v)
			return
		}
		w.object(v, to, path)
	case reflect.Map:
		w.entries(v, to, tag, path)
	case reflect.Slice:
		if v.kind != kindList {
			w.bad(v, path, "it is %v, want a list", v)
			return
		}
		list := reflect.MakeSlice(to.Type(), len(v.items), len(v.items))
		for i, x := range v.items {
			w.read(x, list.Index(i), tag, item(path, i))
		}
		to.Set(list)
	case reflect.String:
		w.text(v, to, tag, path)
	case reflect.Bool:
		if v.kind != kindBool {
			w.bad(v, path, "it is %v, want true or false", v)
			return
		}
		to.SetBool(v.on)
	default:
		w.number(v, to, tag, path)
	}
}

// entries reads an object whose names are the file's.
func (w *walker) entries(v *value, to reflect.Value, tag reflect.StructTag, path string) {
	if v.kind != kindObject {
		w.bad(v, path, "it is %v, want an object", v)
		return
	}
	to.Set(reflect.MakeMap(to.Type()))
	for _, f := range w.once(v, path) {
		entry := reflect.New(to.Type().Elem()).Elem()
		if tag.Get("secret") != "" {
			w.secret(f.value, entry, tag, dot(path, f.name))
		} else {
			w.read(f.value, entry, tag, dot(path, f.name))
		}
		to.SetMapIndex(reflect.ValueOf(f.name), entry)
	}
}

// secret reads a text that no error shows.
func (w *walker) secret(v *value, to reflect.Value, tag reflect.StructTag, path string) {
	inside := to.Kind() == reflect.Map
	switch {
	case v.kind == kindObject && !inside:
		w.note(&w.untaken, v.line, v.column, path, "a reference to a secret is not read")
	case v.kind == kindNumber || v.kind == kindBool:
		w.bad(v, path, "it is not a text")
	default:
		w.read(v, to, tag, path)
	}
}

// once returns the members of an object, of those with one name the last one.
func (w *walker) once(v *value, path string) (list []field) {
	next := make(map[string]int, len(v.fields)) // the line of the next member of a name
	for _, f := range slices.Backward(v.fields) {
		line, twice := next[f.name]
		next[f.name] = f.line
		if !twice {
			list = append(list, f)
			continue
		}
		w.note(&w.doubts, f.line, f.col, dot(path, f.name),
			"it is there twice, and counts as in line %d", line)
	}
	slices.Reverse(list)
	return list
}

// object reads an object whose members are known.
func (w *walker) object(v *value, to reflect.Value, path string) {
	known := w.membersOf(to.Type())
	for _, f := range w.once(v, path) {
		at := dot(path, f.name)
		m, ok := known.fields[f.name]
		why, not := m.Tag.Lookup("not")
		switch {
		case !ok && f.name == "$include":
			w.bad(f.value, at, "files are not included; put what the other file has in its place")
		case !ok:
			w.unknown(f, known, at)
		case not && why == "-", not && f.value.kind == kindList && len(f.value.items) == 0:
		case not:
			w.note(&w.untaken, f.line, f.col, at, "%s", why)
			if m.Type.Elem() != reflect.TypeFor[anything]() {
				w.read(f.value, to.FieldByIndex(m.Index), m.Tag, at)
			}
		case m.Tag.Get("secret") != "":
			w.secret(f.value, to.FieldByIndex(m.Index), m.Tag, at)
		default:
			w.read(f.value, to.FieldByIndex(m.Index), m.Tag, at)
		}
	}
	for _, name := range known.needed {
		if v.get(name) == nil {
			w.bad(v, path, "it lacks %s", name)
		}
	}
}

// unknown says what becomes of a member that is not of a type.
func (w *walker) unknown(f field, known *members, at string) {
	why, ok := known.others[f.name]
	if !ok {
		why, ok = known.others["*"]
	}
	if ok {
		w.note(&w.untaken, f.line, f.col, at, "%s", why)
		return
	}
	if w.strict || known.owned {
		w.bad(&value{line: f.line, column: f.col}, at, "it is not known%s",
			nearest(f.name, known.names))
		return
	}
	w.note(&w.untaken, f.line, f.col, at, "it is not known%s", nearest(f.name, known.names))
}

// members are what the file may say of a type.
type members struct {
	fields map[string]reflect.StructField // by the name in the file, those of embedded ones too
	others map[string]string              // names that are not taken, or *, and why
	needed []string                       // the fields without which it cannot be
	names  []string                       // of fields and others
	owned  bool                           // every other name is a mistake
}

// membersOf returns the members of a type.
func (w *walker) membersOf(typ reflect.Type) *members {
	if known := w.types[typ]; known != nil {
		return known
	}
	known := &members{
		fields: fieldsOf(typ), others: make(map[string]string), owned: isOwned(typ),
	}
	known.names = slices.Sorted(maps.Keys(known.fields))
	for _, name := range known.names {
		if known.fields[name].Tag.Get("need") != "" {
			known.needed = append(known.needed, name)
		}
	}
	for _, m := range reflect.VisibleFields(typ) {
		if m.Type != reflect.TypeFor[others]() {
			continue
		}
		for name := range strings.FieldsSeq(m.Tag.Get("names")) {
			if _, ok := known.others[name]; !ok {
				known.others[name] = m.Tag.Get("not")
			}
			if name != "*" {
				known.names = append(known.names, name)
			}
		}
	}
	if w.types == nil {
		w.types = make(map[reflect.Type]*members)
	}
	w.types[typ] = known
	return known
}

// fieldsOf returns the fields of a type by the name in the file, those of embedded ones too.
func fieldsOf(typ reflect.Type) map[string]reflect.StructField {
	known := make(map[string]reflect.StructField)
	for _, f := range reflect.VisibleFields(typ) {
		if name := f.Tag.Get("json"); name != "" {
			known[name] = f
		}
	}
	return known
}

// isOwned reports whether all members of an object are known.
func isOwned(typ reflect.Type) bool {
	return typ.NumField() > 0 && typ.Field(0).Type == reflect.TypeFor[owned]()
}

// nearest returns the name that was most likely meant, as the end of a sentence.
func nearest(name string, known []string) string {
	best, least := "", len(name)/3+1
	for _, k := range known {
		if len(k) > len(name)+least || len(name) > len(k)+least {
			continue
		}
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < least ||
			d == least && best != "" && k < best {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return ", is " + best + " meant?"
}

// distance returns how many letters are to be changed, put in or taken out.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal, row[j+1] = row[j+1], min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// variables are what a text has of the environment: ${NAME}, which $${NAME} does not mean.
var variables = regexp.MustCompile(`\$?\$\{[A-Z_][A-Z0-9_]*\}`)

// text reads a text, with variables of the environment.
func (w *walker) text(v *value, to reflect.Value, tag reflect.StructTag, path string) {
	if v.kind != kindString {
		w.bad(v, path, "it is %v, want a text", v)
		return
	}
	s := variables.ReplaceAllStringFunc(v.str, func(found string) string {
		if strings.HasPrefix(found, "$$") {
			return found[1:]
		}
		name := found[2 : len(found)-1]
		value, ok := w.env(name)
		switch {
		case !ok:
			w.bad(v, path, "it names the variable %s, which is not set", name)
		case value == "":
			w.bad(v, path, "it names the variable %s, which is set to nothing", name)
		}
		return value
	})
	if s != v.str {
		if w.written == nil {
			w.written = make(map[string]string)
		}
		w.written[strings.TrimSpace(s)] = v.str
	}
	if words := tag.Get("enum"); words != "" {
		s = strings.ToLower(strings.TrimSpace(s))
		if list := strings.Split(words, ","); !slices.Contains(list, s) {
			w.bad(v, path, "it is %s, want %s", quote(v.str), strings.Join(list, ", "))
			return
		}
	}
	if len(s) > maxText {
		w.bad(v, path, "it has %d bytes, want at most %d", len(s), maxText)
		return
	}
	if tag.Get("of") == "tools" && !mayBeTool(s) {
		w.note(&w.doubts, v.line, v.column, path, "no tool has such a name: want letters, digits, _ "+
			"and -, with * for any part of it, or a group")
	}
	to.SetString(s)
}

// mayBeTool reports whether an entry of a list of tools may stand for one. A blank one and an
// unknown group are mistakes, which the Rules find.
func mayBeTool(entry string) bool {
	name := strings.ToLower(strings.TrimSpace(entry))
	return strings.HasPrefix(name, "group:") ||
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-*") == ""
}

// bounds returns the range of a number. hasMost is false if it has one end only.
func bounds(want string) (least, most float64, hasMost bool) {
	least, most = math.Inf(-1), math.Inf(1)
	from, to, ok := strings.Cut(want, "..")
	if !ok {
		return least, most, false
	}
	least, _ = strconv.ParseFloat(from, 64)
	if to != "" {
		most, _ = strconv.ParseFloat(to, 64)
	}
	return least, most, to != ""
}

// number reads a number.
func (w *walker) number(v *value, to reflect.Value, tag reflect.StructTag, path string) {
	whole := to.Kind() == reflect.Int64
	least, most, hasMost := bounds(tag.Get("want"))
	want := "a number"
	if whole {
		want = "an integer"
		most, hasMost = min(most, maxInteger), true
		least = max(least, -maxInteger)
	}
	switch {
	case hasMost && most < maxInteger:
		want += fmt.Sprintf(" from %v to %v", least, strconv.FormatFloat(most, 'f', -1, 64))
	case !math.IsInf(least, -1):
		want += fmt.Sprintf(", %v or more", least)
	}
	if v.kind != kindNumber || math.IsNaN(v.num) || math.IsInf(v.num, 0) ||
		v.num < least || v.num > most || whole && v.num != math.Trunc(v.num) {
		w.bad(v, path, "it is %v, want %s", v, want)
		return
	}
	if whole {
		to.SetInt(int64(v.num))
		return
	}
	to.SetFloat(v.num)
}
