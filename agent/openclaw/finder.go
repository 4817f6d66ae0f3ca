package openclaw

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// A finder finds the values of a file by their paths.
type finder struct {
	root *value
	ids  map[string]int // of agents.list, to their places

	items map[*value]map[string]*value // of lists, by their ids in lower case
	fold  map[*value]map[string]*value // of objects, by their names in lower case
}

func newFinder(root *value, ids []string) finder {
	f := finder{
		root: root, ids: make(map[string]int, len(ids)),
		items: make(map[*value]map[string]*value), fold: make(map[*value]map[string]*value),
	}
	for i, id := range ids {
		if id != "" {
			f.add(id, i)
		}
	}
	return f
}

// add adds the id of an agent, unless one before it has it.
func (f *finder) add(id string, i int) {
	if _, ok := f.ids[id]; !ok {
		f.ids[id] = i
	}
}

// folded returns a member of an object whatever the case of its name, nil for none.
func (f *finder) folded(v *value, name string) *value {
	all := f.fold[v]
	if all == nil {
		all = make(map[string]*value)
		for _, m := range v.members() {
			all[strings.ToLower(m.name)] = m.value
		}
		f.fold[v] = all
	}
	return all[strings.ToLower(name)]
}

// itemOf returns the item of a list that has an id, nil for none.
func (f *finder) itemOf(v *value, id string) *value {
	all := f.items[v]
	if all == nil {
		all = make(map[string]*value)
		for _, x := range slices.Backward(v.items) {
			if own := x.get("id"); own != nil {
				all[strings.ToLower(own.str)] = x
			}
		}
		f.items[v] = all
	}
	return all[strings.ToLower(id)]
}

// find returns the value of a path below root, or the nearest one around it that is there. What
// stands in brackets may be an index, a name, or the id of an item.
func (f *finder) find(path string) (v *value, found bool) {
	v = f.root
	for _, m := range steps.FindAllStringSubmatch(path, -1) {
		name := cmp.Or(m[1], m[0])
		if s, err := strconv.Unquote(name); err == nil {
			name = s
		}
		next := v.get(name)
		if next == nil {
			next = f.folded(v, name)
		}
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(v.items) {
			next = v.items[i]
		}
		if i, ok := f.ids[name]; next == nil && ok && i < len(v.items) {
			next = v.items[i]
		}
		if next == nil {
			next = f.itemOf(v, name)
		}
		if next == nil {
			return v, false
		}
		v = next
	}
	return v, true
}
