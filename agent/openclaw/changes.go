package openclaw

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
)

// An Effect is what becomes of a part of a file that changes while the bot runs.
type Effect uint8

// What may become of a change.
const (
	EffectRestart Effect = iota // it holds from the next agent.Open on
	EffectLive                  // it holds without a restart
	EffectNone                  // it has no effect here, see [Result].Untaken
)

// String returns the effect as a few words.
func (e Effect) String() string {
	switch e {
	case EffectRestart:
		return "needs a restart"
	case EffectLive:
		return "live"
	case EffectNone:
		return "without effect"
	default:
		return "Effect(" + strconv.Itoa(int(e)) + ")"
	}
}

// A Change is one part of a file that says something else than it did. It has no value of the file,
// which may be a secret.
type Change struct {
	Effect Effect
	File   string // as of a [Note]; the place is that in the newer file
	Line   int    // of what is around it if it is not there any more
	Column int
	Path   string // such as "agents.list[research].agentDir", with the id of the agent
	Reason string // a clause: from when on it holds, or why not
}

// String returns the change as one line.
func (c Change) String() string {
	return place(c.File, c.Line, c.Column, c.Path, ": ") + c.Effect.String() + ": " + c.Reason
}

// What takes effect at one place, at one moment, and changes nothing of what is under way is live:
// a function that a Runtime asks again each time. Everything else waits for a restart. The paths
// are those of members, with {} for a name and [] for an item; the longest one decides.
var effects = []struct {
	path   string
	effect Effect
	field  string // of the Config, for what needs a restart
	reason string
}{
	{"agents.defaults.bootstrapMaxChars", EffectLive, "", nextPrompt},
	{"agents.defaults.bootstrapTotalMaxChars", EffectLive, "", nextPrompt},
	{"agents.defaults.models{}", EffectLive, "", nextSpawn},
	{"agents.list[].agentDir", EffectLive, "", nextTurn},
	{"auth.order", EffectLive, "", nextTurn},

	{"agents.defaults.subagents", EffectRestart, "Rules.Subagents", decided},
	{
		"agents.defaults.subagents.announceTimeoutMs", EffectRestart, "DeliverTimeout",
		"calls under way have it, too",
	},
	{"agents.defaults.model", EffectRestart, "Models.Model", "sub-agents under way have inherited it"},
	{
		"agents.defaults.thinkingDefault", EffectRestart, "Models.Thinking",
		"sub-agents under way have inherited it",
	},
	{
		"agents.defaults.models{}.alias", EffectRestart, "Prompts.Input.Aliases",
		"the Rules have full names in place of it",
	},
	{"agents.defaults.workspace", EffectRestart, "Workspace and WorkDir", inDirectory},
	{
		"agents.defaults.userTimezone", EffectRestart, "Prompts.Input.Env.Zone",
		"session_status has the zone from there, and would tell another time than prompts",
	},
	{"agents.defaults.skills", EffectRestart, "Rules.Agents", decided},
	{"agents.defaults.sandbox", EffectRestart, "Rules.Sandbox", decided},
	{"agents.defaults.maxConcurrent", EffectRestart, "Rules.MaxSessions", decided},
	{"agents.defaults.budget", EffectRestart, "Rules.Budget", decided},
	{"agents.defaults.requestBudget", EffectRestart, "Rules.RequestBudget", decided},
	{"agents.list", EffectRestart, "Rules.Agents", decided},
	{"agents.list[].workspace", EffectRestart, "Prompts.Workspaces and WorkDir", inDirectory},

	{"tools", EffectRestart, "Rules.Tools", decided},
	{"tools.groups", EffectRestart, "Rules.Groups", decided},
	{"tools.ownerOnly", EffectRestart, "Rules.OwnerOnly", decided},
	{"tools.toolsBySender{}", EffectRestart, "Rules.Senders", decided},
	{"tools.subagents", EffectRestart, "Rules.SubagentTools", decided},
	{"tools.subagents.tools.defaultDeny", EffectRestart, "Rules.DefaultDeny", decided},
	{"tools.sandbox", EffectRestart, "Rules.Sandbox", decided},
	{"tools.sessions", EffectRestart, "Rules.Visibility", decided},
	{"tools.agentToAgent", EffectRestart, "Rules.AgentToAgent", decided},
	{"tools.sessions_spawn", EffectRestart, "Rules.Attachments", decided},
	{
		"commands.ownerAllowFrom", EffectRestart, "Rules.Owners",
		"they hold for what was asked before, too, which an answer of Config.Owner would not",
	},

	{"session.threadBindings", EffectRestart, "Threads", boundAlready},
	{"session.keepArchivesMinutes", EffectRestart, "Rules.KeepArchives", decided},
	{"channels{}.threadBindings", EffectRestart, "Threads", boundAlready},
	{"channels{}.accounts{}", EffectRestart, "Threads", boundAlready},
	{"channels{}.groups{}", EffectRestart, "Rules.Chats", decided},

	{
		"models.providers{}", EffectRestart, "Models.Prices",
		"what turns under way have spent is reckoned with them",
	},
	{"skills", EffectRestart, "Prompts.SkillHost", "sessions look for skills with it"},
	{"skills.load", EffectRestart, "Prompts.Skills", "sessions have skills from there"},
}

const (
	nextSpawn    = "whether it may be asked for, from the next spawn on"
	nextPrompt   = "from the next prompt on"
	nextTurn     = "credentials are those of it from the next turn on"
	decided      = "what is under way was decided by it"
	inDirectory  = "sub-agents under way work there, with files that were written for them"
	boundAlready = "conversations are bound by it"
)

// effectOf returns what becomes of a change of a member, and a clause that says it to people.
func effectOf(member string) (Effect, string) {
	best := -1
	for i, e := range effects {
		rest, ok := strings.CutPrefix(member, e.path)
		if ok && (rest == "" || strings.ContainsAny(rest[:1], ".[{")) &&
			(best < 0 || len(e.path) > len(effects[best].path)) {
			best = i
		}
	}
	if best < 0 {
		return EffectRestart, "the Config has it from when the Runtime was opened"
	}
	e := effects[best]
	if e.effect == EffectLive {
		return e.effect, e.reason
	}
	return e.effect, fmt.Sprintf("the Runtime has Config.%s from when it was opened; %s", e.field,
		e.reason)
}

// Changes returns what becomes of a program that runs by r when next is read: every part that says
// something else, in the order of next. Values count as they are understood; spaces, comments, the
// order of members and ${NAME} for the same text do not count. It changes nothing; [Live.Update]
// does. A Result that was not read from a file or a text says nothing.
func (r *Result) Changes(next *Result) []Change {
	c := comparer{was: &r.parsed, is: &next.parsed}
	c.before, c.found = newFinder(c.was.root, c.was.ids), newFinder(c.is.root, c.is.ids)
	c.walk(reflect.ValueOf(c.was.doc), reflect.ValueOf(c.is.doc), "", "")
	c.rest()
	for i := range c.list {
		x := &c.list[i]
		x.File, x.Path = c.is.name, shown(x.Path)
	}
	sortChanges(c.list)
	return c.list
}

func sortChanges(list []Change) {
	slices.SortStableFunc(list, func(a, b Change) int {
		places := comparePlaces(a.Line, a.Column, b.Line, b.Column)
		return cmp.Or(places, strings.Compare(a.Path, b.Path))
	})
}

// A comparer collects the differences of two files.
type comparer struct {
	was, is *parsed
	before  finder // in was
	found   finder // in is
	list    []Change
}

// add adds the change of a path, which is that of a member.
func (c *comparer) add(path, member string) {
	effect, reason := effectOf(member)
	c.put(Change{Effect: effect, Path: path, Reason: reason})
}

func (c *comparer) put(x Change) {
	if v := c.is.root; v != nil {
		v, _ = c.found.find(x.Path)
		x.Line, x.Column = v.line, v.column
	}
	c.list = append(c.list, x)
}

// walk compares two values of one type.
func (c *comparer) walk(was, is reflect.Value, path, member string) {
	switch typ := is.Type(); {
	case typ == reflect.TypeFor[*modelRef]():
		if primary(was) != primary(is) {
			c.add(path, member)
		}
	case typ == reflect.TypeFor[[]entry]():
		c.agents(path, member)
	case typ == reflect.TypeFor[[]model]():
		c.costs(was, is, path, member)
	case typ.Kind() == reflect.Struct:
		for name, m := range sortedMembers(typ) {
			if _, not := m.Tag.Lookup("not"); !not {
				c.walk(was.FieldByIndex(m.Index), is.FieldByIndex(m.Index), dot(path, name),
					strings.TrimPrefix(member+"."+name, "."))
			}
		}
	case typ.Kind() == reflect.Pointer && typ.Elem().Kind() == reflect.Struct:
		before := len(c.list)
		c.walk(elem(was), elem(is), path, member)
		if was.IsNil() != is.IsNil() && len(c.list) == before {
			c.add(path, member)
		}
	case typ.Kind() == reflect.Map && typ.Elem().Kind() == reflect.Struct:
		c.entries(was, is, path, member)
	case typ.Kind() == reflect.Map && was.Len() == 0 && is.Len() == 0:
	default:
		if !reflect.DeepEqual(was.Interface(), is.Interface()) {
			c.add(path, member)
		}
	}
}

// primary returns the name of a model, empty if there is none.
func primary(v reflect.Value) string {
	m, _ := reflect.TypeAssert[*modelRef](v)
	if m == nil || m.Primary == nil {
		return ""
	}
	return strings.TrimSpace(*m.Primary)
}

// elem returns what a pointer leads to, the zero value for nil.
func elem(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return reflect.Zero(v.Type().Elem())
	}
	return v.Elem()
}

// sortedMembers are the members of a type in the order of their names.
func sortedMembers(typ reflect.Type) func(yield func(string, reflect.StructField) bool) {
	known := fieldsOf(typ)
	return func(yield func(string, reflect.StructField) bool) {
		for _, name := range slices.Sorted(maps.Keys(known)) {
			if !yield(name, known[name]) {
				return
			}
		}
	}
}

// saysSomething are the types of entries that say something by being there.
func saysSomething(typ reflect.Type) bool {
	return typ == reflect.TypeFor[modelEntry]() || typ == reflect.TypeFor[skillEntry]() ||
		typ == reflect.TypeFor[toolLists]()
}

// entries compares two objects whose names are the file's. Of an entry that is there in one alone
// only what has another effect than the entry is told beside it.
func (c *comparer) entries(was, is reflect.Value, path, member string) {
	member += "{}"
	names := make(map[string]bool)
	for _, m := range []reflect.Value{was, is} {
		for _, k := range m.MapKeys() {
			names[k.String()] = true
		}
	}
	typ := is.Type().Elem()
	at := func(m reflect.Value, name string) (v reflect.Value, there bool) {
		if v = m.MapIndex(reflect.ValueOf(name)); v.IsValid() {
			return v, true
		}
		return reflect.Zero(typ), false
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, before := at(was, name)
		b, after := at(is, name)
		own := dot(path, name)
		if before == after || !saysSomething(typ) {
			c.walk(a, b, own, member)
			continue
		}
		c.add(own, member)
		from := len(c.list)
		effect := c.list[from-1].Effect
		c.walk(a, b, own, member)
		c.list = slices.Concat(c.list[:from], slices.DeleteFunc(c.list[from:], func(x Change) bool {
			return x.Effect == effect
		}))
	}
}

// agents compares agents.list, in which the order decides at most which agent is the default one.
func (c *comparer) agents(path, member string) {
	member += "[]"
	told := len(c.list)
	for _, id := range c.is.ids {
		if _, ok := c.before.ids[id]; id != "" && !ok {
			c.add(path+"["+id+"]", member)
		}
	}
	for _, id := range c.was.ids {
		if _, ok := c.found.ids[id]; id != "" && !ok {
			c.add(path+"["+id+"]", member)
		}
	}
	told = len(c.list) - told
	for i, id := range c.is.ids {
		j, ok := c.before.ids[id]
		if id == "" || !ok {
			continue
		}
		was, is := c.was.doc.Agents.List[j], c.is.doc.Agents.List[i]
		was.ID = is.ID
		c.walk(reflect.ValueOf(was), reflect.ValueOf(is), path+"["+id+"]", member)
	}
	if told == 0 && c.was.defaultAgent() != c.is.defaultAgent() &&
		!slices.ContainsFunc(c.list, func(x Change) bool {
			return strings.HasPrefix(x.Path, path) && strings.HasSuffix(x.Path, "].default")
		}) {
		c.add(path, member)
	}
}

// defaultAgent returns the id of the default agent.
func (p *parsed) defaultAgent() string {
	first := ""
	for i, id := range p.ids {
		e := p.doc.Agents.List[i]
		if id != "" && e.Default != nil && *e.Default {
			return id
		}
		if first == "" {
			first = id
		}
	}
	return cmp.Or(first, session.DefaultAgent)
}

// costs compares what the models of a provider cost, by their ids.
func (c *comparer) costs(was, is reflect.Value, path, member string) {
	by := func(v reflect.Value) map[string]*cost {
		list, _ := reflect.TypeAssert[[]model](v)
		all := make(map[string]*cost)
		for _, m := range list {
			if m.ID == nil || m.Cost == nil {
				continue
			}
			if id := strings.ToLower(strings.TrimSpace(*m.ID)); all[id] == nil {
				all[id] = m.Cost
			}
		}
		return all
	}
	before, after := by(was), by(is)
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		c.walk(reflect.ValueOf(before[id]), reflect.ValueOf(after[id]),
			path+"["+strconv.Quote(id)+"].cost", member+"[].cost")
	}
}

// rest compares what has no effect, as the file has it.
func (c *comparer) rest() {
	told := make(map[string]bool)
	for _, x := range c.list {
		told[x.Path] = true
	}
	at := func(f *finder, path string) *value {
		if f.root == nil {
			return nil
		}
		if v, found := f.find(path); found {
			return v
		}
		return nil
	}
	for _, n := range slices.Concat(c.is.untaken, c.was.untaken) {
		if told[n.Path] {
			continue
		}
		told[n.Path] = true
		if !at(&c.before, n.Path).equals(at(&c.found, n.Path)) {
			c.put(Change{Effect: EffectNone, Path: n.Path, Reason: n.Text})
		}
	}
}

// equals reports whether two values say the same, wherever they are. Nil is one that is not there.
func (v *value) equals(o *value) bool {
	if v == nil || o == nil {
		return v == o
	}
	if v.kind != o.kind || v.on != o.on || v.str != o.str || len(v.items) != len(o.items) ||
		v.num != o.num && !(math.IsNaN(v.num) && math.IsNaN(o.num)) {
		return false
	}
	for i := range v.items {
		if !v.items[i].equals(o.items[i]) {
			return false
		}
	}
	return maps.EqualFunc(v.byName(), o.byName(), (*value).equals)
}

// byName returns the members of an object, of those with one name the last one.
func (v *value) byName() map[string]*value {
	all := make(map[string]*value, len(v.fields))
	for _, f := range v.fields {
		all[f.name] = f.value
	}
	return all
}
