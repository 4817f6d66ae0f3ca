package agentctx

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/clone"
	"github.com/offshoot-sdk/offshoot/session"
)

var (
	assemblerKeys = []session.Key{
		session.Must(session.Parse("agent:main:main")),
		session.Must(session.Parse("agent:main:telegram:group:7")),
		session.Must(session.Parse("agent:main:cron:nightly")),
		session.Must(session.Parse("agent:coder:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11")),
	}
	otherKey = session.Must(
		session.Parse("agent:coder:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c12"))
)

// filledInput is an Input in which each field has a value, and each list an element.
func filledInput(key session.Key) Input {
	in := Input{
		Session: key,
		Lineage: session.Lineage{Key: key, Role: session.RoleMain},
		Files: []WorkspaceFile{
			{Name: AgentsFile, Path: "/w/AGENTS.md", Content: "Do it well.", Target: AgentsFile},
			{Name: ToolsFile, Missing: true, Reason: ReasonUnreadable, Why: "no permission"},
			{Name: MemoryFile, Content: "It rained."},
		},
		Spec:   Spec{Files: []string{"*"}, Skills: []string{"*"}},
		Limits: Limits{File: 1000, Total: 2000, Skills: 3000},
		Tools:  []Tool{{"read", "Reads."}, {"sessions_spawn", "Spawns."}},
		Skills: []Skill{{"pdf", "Fill in forms.", "/home/x/skills/pdf/SKILL.md"}},
		Env:    Env{Zone: "UTC", Home: "/home/x"},
		Sandbox: Sandbox{
			Access: "ro", Elevated: "ask",
		},
		Channel: Channel{Senders: []string{"+123"}, Reactions: "minimal"},
		Extra: []Section{
			{ID: "own", Text: "Own text.", Class: ClassPerTurn},
			{ID: SectionSafety, Text: "Be safe."},
		},
		Now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
	}
	fill(reflect.ValueOf(&in).Elem(), "in")
	return in
}

// fill sets what is zero to something else. Functions stay nil.
func fill(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Struct:
		if opaque(v) {
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			fill(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("fast"), reflect.ValueOf("acme/small"))
	case reflect.Func:
	default:
		if v.IsZero() {
			other(v, path)
		}
	}
}

// opaque reports whether v is a struct whose parts do not count as fields of an Input.
func opaque(v reflect.Value) bool {
	switch v.Interface().(type) {
	case time.Time, session.Key:
		return true
	}
	return false
}

// other sets a leaf to another value.
func other(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8:
		v.SetUint((v.Uint() + 1) % 3)
	default:
		panic("a field of a new kind: " + path)
	}
}

// eachChange calls f for each way in which one field of in, or of an element of it, may differ:
// with the path of the field, and a copy of in that differs there alone.
func eachChange(in Input, f func(path string, changed Input)) {
	var walk func(path string, at func(*Input) reflect.Value)
	walk = func(path string, at func(*Input) reflect.Value) {
		change := func(what string, set func(v reflect.Value)) {
			changed := clone.Of(in)
			set(at(&changed))
			f(path+what, changed)
		}
		v := at(&in)
		switch v.Kind() {
		case reflect.Struct:
			switch v.Interface().(type) {
			case time.Time:
				day := reflect.ValueOf(in.Now.AddDate(0, 0, 1))
				change("", func(v reflect.Value) { v.Set(day) })
				return
			case session.Key:
				change("", func(v reflect.Value) { v.Set(reflect.ValueOf(otherKey)) })
				return
			}
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name,
					func(in *Input) reflect.Value { return at(in).Field(i) })
			}
		case reflect.Slice:
			change(" nil", func(v reflect.Value) { v.SetZero() })
			change(" empty", func(v reflect.Value) { v.SetLen(0) })
			change(" longer", func(v reflect.Value) {
				v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			})
			for i := range v.Len() {
				walk(fmt.Sprintf("%s[%d]", path, i),
					func(in *Input) reflect.Value { return at(in).Index(i) })
			}
		case reflect.Map:
			change(" nil", func(v reflect.Value) { v.SetZero() })
			change(" more", func(v reflect.Value) {
				v.SetMapIndex(reflect.ValueOf("best"), reflect.ValueOf("acme/large"))
			})
			change(" value", func(v reflect.Value) {
				v.SetMapIndex(reflect.ValueOf("fast"), reflect.ValueOf("acme/tiny"))
			})
		case reflect.Func:
			change("", func(v reflect.Value) {
				v.Set(reflect.ValueOf(func(string) int { return 7 }))
			})
		default:
			change("", func(v reflect.Value) { other(v, path) })
		}
	}
	walk("Input", func(in *Input) reflect.Value { return reflect.ValueOf(in).Elem() })
}

// ofOneSession are the fields that sharedInput leaves out. What a sub-agent is told of its report
// and what it is are in the sort.
var ofOneSession = []string{
	"Input.Session", "Input.Lineage.", "Input.Subagent.", "Input.Active", "Input.Conversation",
	"Input.Task", "Input.Now", "Input.Env.Model", "Input.Env.Thinking", "Input.Env.Channel",
	"Input.Drop", "Input.Order",
	"Input.Extra[0]", "Input.Extra longer", // these take the place of no stable section
}

// Each field of an Input, also one that is added later, is compared or known to be of one session.
func TestSharedInputsAreComparedInEveryField(t *testing.T) {
	for _, key := range assemblerKeys {
		in := filledInput(key)
		shared, of := sharedInput(&in)
		same := clone.Of(shared)
		require.True(t, sameShared(&shared, &same))
		eachChange(in, func(path string, changed Input) {
			own := strings.HasPrefix(path, "Input.Limits.Count") // never comes so far
			for _, p := range ofOneSession {
				own = own || strings.HasPrefix(path, p)
			}
			second, ofSecond := sharedInput(&changed)
			differs := of != ofSecond || !sameShared(&shared, &second)
			switch {
			case !own:
				assert.True(t, differs, "%s: %s", key, path)
			case of == ofSecond && !strings.HasPrefix(path, "Input.Limits"):
				assert.Equal(t, shared.Spec.Mode == second.Spec.Mode, !differs, "%s: %s", key, path)
			}
		})
	}
}

// An Assembler returns what Assemble does, whatever it has seen, and whichever field differs.
func TestAssemblerKeepsNothingStale(t *testing.T) {
	for _, layout := range []Layout{LayoutDefault, LayoutGoClaw} {
		for _, mode := range []Mode{ModeAuto, ModeFull, ModeMinimal, ModeNone} {
			for _, key := range assemblerKeys {
				base := filledInput(key)
				base.Layout, base.Spec.Mode = layout, mode
				base.Extra, base.Drop, base.Order = base.Extra[:1], nil, nil
				base.Env.Zone = "UTC"
				base.Subagent.Requester = assemblerKeys[0]
				m, want := new(Assembler), Assemble(base)
				eachChange(base, func(path string, changed Input) {
					require.Equal(t, want, m.Assemble(base), "%s: before %s", key, path)
					require.Equal(t, Assemble(changed), m.Assemble(changed), "%s: %s", key, path)
				})
				require.Equal(t, want, m.Assemble(base))
			}
		}
	}
}

// What an Assembler was given and has returned may be changed by the caller.
func TestAssemblerSharesNothing(t *testing.T) {
	in := filledInput(assemblerKeys[0])
	m, want := new(Assembler), Assemble(in)
	require.NotEmpty(t, want.Skills)
	given := clone.Of(in)
	first := m.Assemble(given)
	given.Files[0].Content, given.Notes[0] = "Do it otherwise.", "Another note."
	require.Equal(t, Assemble(given), m.Assemble(given), "it was changed in place")
	scribble := func(v reflect.Value) {
		for i := range v.Len() {
			v.Index(i).SetZero()
		}
	}
	for _, p := range []Prompt{first, m.Assemble(clone.Of(in))} {
		scribble(reflect.ValueOf(p.Sections))
		scribble(reflect.ValueOf(p.Files))
		scribble(reflect.ValueOf(p.Skills))
	}
	scribble(reflect.ValueOf(given.Files))
	scribble(reflect.ValueOf(given.Tools))
	scribble(reflect.ValueOf(given.Notes))
	given.Aliases["fast"] = "another"
	require.Equal(t, want, m.Assemble(in))
}

// What an Assembler keeps is bounded by number and by bytes, and what was used last stays.
func TestAssemblerIsBounded(t *testing.T) {
	m := new(Assembler)
	small := func(i int) Input {
		return Input{Session: assemblerKeys[0], Product: fmt.Sprint("p", i)}
	}
	for i := range 3 * maxCommons {
		m.Assemble(small(i))
		m.Assemble(small(0))
	}
	require.Len(t, m.kept, maxCommons)
	shared, of := sharedInput(new(small(0)))
	require.NotNil(t, m.find(&shared, of))
	shared, of = sharedInput(new(small(1)))
	require.Nil(t, m.find(&shared, of))

	large := func(i, size int) Input {
		in := small(i)
		in.Files = []WorkspaceFile{{Name: AgentsFile, Content: strings.Repeat("x", size)}}
		return in
	}
	for i := range 5 {
		m.Assemble(large(i, maxCommonBytes/3))
	}
	require.Len(t, m.kept, 2)
	bytes := 0
	for _, c := range m.kept {
		bytes += c.bytes
	}
	require.Equal(t, bytes, m.bytes)
	m.Assemble(large(7, maxCommonBytes+1))
	require.Len(t, m.kept, 2, "it displaces none")
}

// Each text of an Input counts that an Assembler keeps, wherever it is.
func TestAssemblerCountsEveryText(t *testing.T) {
	long := strings.Repeat("x", maxCommonBytes+1)
	for _, mode := range []Mode{ModeFull, ModeNone} {
		base := filledInput(assemblerKeys[0])
		base.Spec.Mode = mode
		texts := 0
		eachText(reflect.ValueOf(&base).Elem(), func(reflect.Value) { texts++ })
		require.Greater(t, texts, 60)
		for i := range texts {
			in, m, n := clone.Of(base), new(Assembler), 0
			eachText(reflect.ValueOf(&in).Elem(), func(v reflect.Value) {
				if n == i {
					v.SetString(long)
				}
				n++
			})
			m.Assemble(in)
			for _, c := range m.kept {
				require.LessOrEqual(t, clone.Bytes(c.in), maxCommonBytes, "text %d", i)
			}
			require.LessOrEqual(t, m.bytes, maxCommonBytes, "text %d", i)
		}
	}
}

// eachText calls f with each text in v that can be set.
func eachText(v reflect.Value, f func(reflect.Value)) {
	switch v.Kind() {
	case reflect.String:
		f(v)
	case reflect.Slice:
		for i := range v.Len() {
			eachText(v.Index(i), f)
		}
	case reflect.Struct:
		if opaque(v) {
			return
		}
		for _, field := range v.Fields() {
			eachText(field, f)
		}
	default:
	}
}

func TestAssemblerServesManyAtATime(t *testing.T) {
	m := new(Assembler)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 50 {
				in := filledInput(assemblerKeys[(i+n)%len(assemblerKeys)])
				in.Product = fmt.Sprint(n % 7)
				assert.Equal(t, Assemble(in), m.Assemble(in))
			}
		})
	}
	wg.Wait()
}

// Each sub-agent is told its own duties and its own session, whatever others were told before.
func TestAssemblerTellsDutiesApart(t *testing.T) {
	child := session.Must(session.Parse("agent:main:subagent:00000000-0000-4000-8000-000000000001"))
	var m Assembler
	for _, sub := range []Subagent{
		{Depth: 1},
		{Depth: 2},
		{Depth: 1, Forked: true},
		{Depth: 1, Persistent: true},
		{Depth: 1, MaxDepth: 3, MaySpawn: true},
		{Depth: 1, Schema: `{"type":"string"}`},
		{Depth: 1, Label: "one"},
		{Depth: 1, Label: "two"},
		{Depth: 1, Requester: session.Must(session.MainKey("main"))},
		{Depth: 1, RequesterChannel: "telegram"},
		{Depth: 1},
	} {
		in := Input{Session: child, Subagent: sub}
		require.Equal(t, Assemble(in), m.Assemble(in), "%+v", sub)
		require.Equal(t, Assemble(in), m.Assemble(in), "%+v, again", sub)
	}
}
