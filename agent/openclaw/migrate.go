package openclaw

// migrate changes what earlier versions of OpenClaw wrote into what today's writes, and says so.
func (w *walker) migrate(root *value) (list []Note) {
	say := func(v *value, path, format string, args ...any) {
		w.note(&list, v.line, v.column, path, format, args...)
	}
	if old := root.get("agent"); old != nil && old.kind == kindObject {
		say(old, "agent", "it is read as agents.defaults")
		root.drop("agent")
		defaults := descend(descend(root, "agents", old), "defaults", old)
		set := defaults.byName()
		for _, f := range old.fields {
			if set[f.name] == nil {
				set[f.name] = f.value
				defaults.fields = append(defaults.fields, f)
			}
		}
	}
	w.entriesOf(root.get("agents"), say)
	hours := func(at *value, path string) {
		threads := at.get("threadBindings")
		old := threads.get("ttlHours")
		if old == nil {
			return
		}
		path += ".threadBindings.ttlHours"
		if threads.get("idleHours") != nil {
			say(old, path, "it is passed over, since idleHours is set")
		} else {
			say(old, path, "it is read as idleHours")
			threads.set("idleHours", old)
			if w.moved == nil {
				w.moved = make(map[*value]string)
			}
			w.moved[old] = path
		}
		threads.drop("ttlHours")
	}
	hours(root.get("session"), "session")
	for _, channel := range root.get("channels").members() {
		path := dot("channels", channel.name)
		hours(channel.value, path)
		for _, account := range channel.value.get("accounts").members() {
			hours(account.value, dot(path+".accounts", account.name))
		}
	}
	return list
}

// entriesOf makes the list of agents of agents.entries, which has them by their ids.
func (w *walker) entriesOf(agents *value, say func(*value, string, string, ...any)) {
	const path = "agents.entries"
	switch entries, list := agents.get("entries"), agents.get("list"); {
	case entries == nil:
		return
	case list != nil:
		w.bad(entries, path, "it has agents by their ids, and agents.list is there, too, in line %d; "+
			"want all agents in one of the two", list.line)
	case entries.kind != kindObject:
		w.bad(entries, path, "it is %v, want an object of agents by their ids, or agents.list", entries)
	default:
		say(entries, path, "it is read as agents.list, in the order of the file")
		for _, f := range entries.fields {
			if own := f.value.get("id"); own != nil && (own.kind != kindString || own.str != f.name) {
				say(own, dot(dot(path, f.name), "id"), "it is passed over, since the name is the id")
			}
		}
		agents.set("list", listOf(entries))
	}
	agents.drop("entries")
}

// members returns the members of an object, none of anything else.
func (v *value) members() []field {
	if v == nil || v.kind != kindObject {
		return nil
	}
	return v.fields
}

// descend returns the object that is a member, which is made if it is not there.
func descend(v *value, name string, like *value) *value {
	if in := v.get(name); in != nil {
		return in
	}
	fresh := &value{kind: kindObject, line: like.line, column: like.column}
	v.set(name, fresh)
	return fresh
}

// listOf returns the list of the members of an object, each with its name as the id.
func listOf(entries *value) *value {
	list := &value{kind: kindList, line: entries.line, column: entries.column}
	for _, f := range entries.fields {
		if f.value.kind == kindObject {
			f.value.set("id", &value{kind: kindString, str: f.name, line: f.line, column: f.col})
		}
		list.items = append(list.items, f.value)
	}
	return list
}
