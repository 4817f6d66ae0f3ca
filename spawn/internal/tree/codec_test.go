package tree

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// filler fills values with random content: every field of every kind of fact.
type filler struct{ *rand.Rand }

var texts = []string{
	"plain", `quote " and \ backslash`, "line\nbreak\ttab", "<b>&amp;</b>",
	"ünïcödé \u2028 \U0001F600", "not \xff\xfe UTF-8", "\x00", "\xc3",
}

func (r filler) text() Text { return Text(texts[r.IntN(len(texts))]) }

func (r filler) key() session.Key {
	k := session.Must(session.MainKey("main"))
	for range r.IntN(3) {
		k = session.Must(k.Child("main", []string{"a", "b-1", "c"}[r.IntN(3)]))
	}
	return k
}

func (r filler) fill(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *session.Key:
		*x = r.key()
		return
	case *Text:
		*x = r.text()
		return
	case *session.Role:
		*x = session.RoleMain + session.Role(r.IntN(3))
		return
	case *State:
		*x = State(r.IntN(int(states)))
		return
	case *Cause:
		*x = Cause(r.IntN(int(causes)))
		return
	case *Class:
		*x = Class(r.IntN(int(classes)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts[r.IntN(5)]) // a string that is not a Text is checked to be UTF-8
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64() >> 12)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(r.IntN(200)))
	case reflect.Uint64:
		v.SetUint(r.Uint64())
	case reflect.Float64:
		v.SetFloat(r.Float64())
	case reflect.Pointer:
		if _, always := reflect.TypeAssert[*Grant](v); always || r.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			r.fill(v.Elem())
		}
	case reflect.Slice:
		n := r.IntN(3)
		if n == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			r.fill(v.Index(i))
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			if f.CanSet() {
				r.fill(f)
			}
		}
	}
}

func (r filler) fact(k Kind) *Fact {
	f := &Fact{}
	r.fill(reflect.ValueOf(f).Elem())
	f.Kind = k
	if r.IntN(2) == 0 { // most facts have few fields
		f = &Fact{
			Kind: k, At: f.At, Run: f.Run, Text: f.Text, N: f.N,
			Spec: f.Spec, Answer: f.Answer,
			FactMore: &FactMore{Image: f.Image(), Skills: f.Skills(), Mail: f.Mail()},
		}
	}
	if f.Spec == nil {
		f.Spec = &Spec{Key: r.key(), Grant: &Grant{}}
	}
	if f.Image() == nil || len(f.Image().Runs) == 0 {
		f.Own().Image = &Image{Runs: []RunState{{Spec: f.Spec}}}
	}
	if k == Unarchived || k == ReviveBegun {
		f.Image().Runs = f.Image().Runs[:1]
	}
	if f.Begin() == nil && k == Restarted {
		f.Own().Begin = &Begin{ID: "b"}
	}
	if f.Route == nil && (k == Bound || k == Unbound) {
		f.Route = &session.Route{Channel: "chat"}
	}
	if f.Answer == nil {
		f.Answer = &Result{}
	}
	if f.Skills() == nil {
		f.Own().Skills = &SkillSet{}
	}
	dropData(f)
	return f
}

func snapshotOf(m *Image) *Fact {
	return &Fact{Kind: Snapshot, FactMore: &FactMore{Image: m}}
}

// dropData drops the bytes of parts, which have no JSON form: facts never have them.
func dropData(f *Fact) {
	drop := func(m *Mail) {
		for i := range m.partsOf() {
			m.Parts[i].Data = nil
		}
	}
	drop(f.Mail())
	if f.Image() == nil {
		return
	}
	for _, r := range f.Image().Runs {
		for _, in := range r.Inbox {
			drop(in.Mail)
		}
	}
}

func (m *Mail) partsOf() []session.Part {
	if m == nil {
		return nil
	}
	return m.Parts
}

// TestCodecRoundTrip writes facts of every kind down and reads them back, and compares what is
// written by hand with what encoding/json makes of the same fields.
func TestCodecRoundTrip(t *testing.T) {
	r := filler{rand.New(rand.NewPCG(1, 2))}
	for range raced(20, 3) {
		for k := Opened; k < kinds; k++ {
			f := r.fact(k)
			data, err := f.AppendJSON([]byte("before "))
			require.NoError(t, err)
			require.Equal(t, "before ", string(data[:7]))
			data = data[7:]
			require.True(t, json.Valid(data), "%s", data)
			require.NotContains(t, string(data), "\n")

			byReflection, err := json.Marshal(wireOf(f))
			require.NoError(t, err)
			require.Equal(t, string(byReflection), string(data))

			got, err := DecodeFact(data)
			require.NoError(t, err, "%s", data)
			again, err := got.AppendJSON(nil)
			require.NoError(t, err)
			require.Equal(t, string(data), string(again))
			require.Equal(t, f, got)
		}
	}
}

// The members of a specification are in the order in which earlier libraries wrote them, in a fact
// of its own and in an image.
func TestSpecIsWrittenInOrder(t *testing.T) {
	type order struct {
		ID         string          `json:"id"`
		SessionID  string          `json:"sessionId"`
		Key        session.Key     `json:"key"`
		Parent     session.Key     `json:"parent"`
		SpawnKey   string          `json:"spawnKey,omitempty"`
		Digest     string          `json:"digest,omitempty"`
		Request    string          `json:"request,omitempty"`
		ByModel    bool            `json:"byModel,omitempty"`
		Task       Text            `json:"task"`
		Label      string          `json:"label,omitempty"`
		Name       string          `json:"name,omitempty"`
		Announce   bool            `json:"announce,omitempty"`
		Milestones bool            `json:"milestones,omitempty"`
		Thread     bool            `json:"thread,omitempty"`
		Session    bool            `json:"session,omitempty"`
		Delete     bool            `json:"delete,omitempty"`
		Step       bool            `json:"step,omitempty"`
		Update     bool            `json:"update,omitempty"`
		Extra      []byte          `json:"extra,omitempty"`
		Route      *session.Route  `json:"route,omitempty"`
		Created    int64           `json:"created"`
		Senders    []policy.Sender `json:"senders,omitempty"`
		*Grant
	}
	r := filler{rand.New(rand.NewPCG(11, 12))}
	for range 200 {
		var was order
		r.fill(reflect.ValueOf(&was).Elem())
		want, err := json.Marshal(was)
		require.NoError(t, err)
		s := new(Spec)
		require.NoError(t, json.Unmarshal(want, s))
		got, err := json.Marshal(s)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
		image, err := json.Marshal(&Image{Runs: []RunState{{Spec: s}}})
		require.NoError(t, err)
		require.Contains(t, string(image), `{"spec":`+string(want))
		got, err = s.appendJSON(nil)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
}

// The members of a Result are in the order in which earlier libraries wrote them.
func TestResultIsWrittenInOrder(t *testing.T) {
	type order struct {
		Text      Text         `json:"text,omitempty"`
		JSON      Text         `json:"json,omitempty"`
		Files     []File       `json:"files,omitempty"`
		Model     Text         `json:"model,omitempty"`
		Usage     Usage        `json:"usage,omitzero"`
		Fallback  Text         `json:"fallback,omitempty"`
		Reply     Text         `json:"reply,omitempty"`
		ReplyTo   Text         `json:"replyTo,omitempty"`
		Voice     bool         `json:"voice,omitempty"`
		Refused   Text         `json:"refused,omitempty"`
		ByModel   []ModelUsage `json:"byModel,omitempty"`
		Whole     session.File `json:"whole,omitzero"`
		WholeJSON session.File `json:"wholeJSON,omitzero"`
	}
	r := filler{rand.New(rand.NewPCG(13, 14))}
	for range 200 {
		var was order
		r.fill(reflect.ValueOf(&was).Elem())
		want, err := json.Marshal(was)
		require.NoError(t, err)
		a := new(Result)
		require.NoError(t, json.Unmarshal(want, a))
		got, err := json.Marshal(a)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
		got, err = a.appendJSON(nil)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
	require.Zero(t, noResultMore)
}

// A fact without a part of its own reads as one with an empty one, and nothing writes to what facts
// share.
func TestFactWithoutMore(t *testing.T) {
	of := reflect.ValueOf(new(Fact))
	for _, m := range membersOf(reflect.TypeFor[FactMore]()) {
		var more FactMore
		require.True(t, more.isZero())
		m.set(reflect.ValueOf(&more).Elem())
		require.False(t, more.isZero(), m.path)
	}
	for field := range reflect.TypeFor[FactMore]().Fields() {
		got := of.MethodByName(field.Name).Call(nil)[0]
		require.True(t, got.IsZero(), field.Name)
	}
	f := Fact{Kind: Posted}
	f.setMail(nil)
	f.setSenders(nil)
	require.Nil(t, f.FactMore)
	f.setMail(&Mail{})
	f.setSenders([]policy.Sender{{}})
	require.NotNil(t, f.Mail())
	require.Len(t, f.Senders(), 1)
	f.setMail(nil)
	f.setSenders(nil)
	require.True(t, f.more().isZero())
	require.Zero(t, noFactMore)

	// Nor does what changes a turn that reserves what others do.
	r := NewRun(RunState{Spec: &Spec{Key: top, Grant: &Grant{}}})
	f = turnStarted(1, r, 1, 0, Budget{Turns: 1})
	require.Same(t, &oneTurn, f.FactMore)
	f.Own().Budget.Tokens = 1
	require.Equal(t, Budget{Tokens: 1, Turns: 1}, f.Budget())
	f = turnStarted(1, r, 1, 0, Budget{Tokens: 2, Turns: 1})
	require.Equal(t, Budget{Tokens: 2, Turns: 1}, f.Budget())
	require.Equal(t, FactMore{Budget: Budget{Turns: 1}}, oneTurn)
}

// A specification is given what it has more of without a change of the one before.
func TestSpecWithMore(t *testing.T) {
	s := &Spec{ID: "a", Grant: &Grant{}}
	require.Equal(t, *s, *s.with(SpecMore{}))
	for _, m := range membersOf(reflect.TypeFor[SpecMore]()) {
		var more SpecMore
		m.set(reflect.ValueOf(&more).Elem())
		own := s.with(more)
		require.Equal(t, &more, own.SpecMore, m.path)
		require.Nil(t, s.SpecMore)
		require.Nil(t, own.with(SpecMore{}).SpecMore)
	}
	require.Zero(t, noSpecMore)
}

// What comes from a configuration may hold anything; a journal must stay one that can be read.
func TestCodecReplacesWhatIsNotUTF8(t *testing.T) {
	f := admitted(&Spec{
		Key: session.Must(top.Child("main", "a")), Parent: top,
		Grant: &Grant{Model: "gpt-\xff", Tools: []string{"a\xc3", "b"}},
	})
	data, err := f.AppendJSON(nil)
	require.NoError(t, err)
	byReflection, err := json.Marshal(wireOf(&f))
	require.NoError(t, err)
	require.Equal(t, string(byReflection), string(data))
	got, err := DecodeFact(data)
	require.NoError(t, err)
	require.Equal(t, "gpt-\uFFFD", got.Spec.Model)
}

// BenchmarkAppendJSON writes what a child adds to its journal, by hand and by reflection.
func BenchmarkAppendJSON(b *testing.B) {
	r := NewRun(RunState{Spec: &Spec{
		ID: "6f9619ff-8b86-4d01-b42d-00cf4fc964ff", SessionID: "16fd2706-8baf-433b-82eb-8c7fada847da",
		Key: session.Must(top.Child("main", "6f9619ff")), Parent: top,
		Task: "count the files", Announce: true, Created: 1,
		Grant: &Grant{
			Agent: "main", Role: session.RoleLeaf, Depth: 1, Tools: []string{"read", "exec"},
		},
	}, Open: &OpenTurn{N: 1}})
	facts := []Fact{
		admitted(r.Spec), turnStarted(2, r, 1, 0, Budget{Turns: 1}),
		turnEnded(3, r, OK, &Result{Text: "42 files"}, 0, 100, nil),
		runEnded(4, r, OK, 5, FlagTell), outboxFact(Delivered, 5, 1, 0, ""),
	}
	buf := make([]byte, 0, 4096)
	for name, write := range map[string]func(*Fact) ([]byte, error){
		"by=hand":       func(f *Fact) ([]byte, error) { return f.AppendJSON(buf) },
		"by=reflection": func(f *Fact) ([]byte, error) { return json.Marshal(wireOf(f)) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for i := range facts {
					if _, err := write(&facts[i]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func wireOf(f *Fact) wireFact {
	w := wireFact{
		V: f.version(), Kind: f.Kind.String(), At: f.At, Run: f.Run,
		State: f.State, Cause: f.Cause, Class: f.Class, Flags: f.Flags,
		N: f.N, Ord: f.Ord, Until: f.Until, Num: f.Num, ID: f.ID(), Text: f.Text, From: f.From(),
		Spec: f.Spec, Begin: f.Begin(), Answer: f.Answer, Join: f.Join(),
		Route: f.Route, Skills: f.Skills(), Mail: f.Mail(), Image: f.Image(), Senders: f.Senders(),
		Elsewhere: f.Elsewhere,
	}
	if b := f.Budget(); b != (Budget{}) {
		w.Budget = &b
	}
	return w
}

// A fact has no field that the codec forgets, nor has its wire form.
func TestCodecKnowsEveryField(t *testing.T) {
	names := func(v any) (list []string) {
		for f := range reflect.TypeOf(v).Fields() {
			if !f.Anonymous {
				list = append(list, f.Name)
			}
		}
		return list
	}
	ofFact := append(names(Fact{}), names(FactMore{})...)
	require.ElementsMatch(t, append(ofFact, "V"), names(wireFact{}))
}

func TestCodecRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, data := range []string{
		`{"v":3,"kind":"opened","at":1}`, `{"v":1,"kind":"married","at":1}`,
		`{"v":2,"kind":"married","at":1}`, `{"v":2,"kind":"opened","at":1,"mood":"good"}`,
		`{"v":2,"kind":"admitted","spec":{"id":"a","key":"agent:main:main","mood":"good"}}`,
		`{"v":-1,"kind":"opened","at":1}`,
		`{"v":1,"kind":"none","at":1}`, `{"kind":"opened"}`, `{}`,
	} {
		_, err := DecodeFact([]byte(data))
		var version *VersionError
		require.ErrorAs(t, err, &version, data)
	}
	for _, data := range []string{
		`{"v":1,"kind":"admitted"}`, `{"v":1,"kind":"snapshot"}`, `{"v":1,"kind":"turn_ended","flags":64}`,
		`{"v":1,"kind":"run_ended","state":11}`, `{"v":1,"kind":"stop_requested","cause":7}`,
		`{"v":1,"kind":"posted","class":7}`, `{"v":2,"kind":"skills_taken"}`,
	} {
		_, err := DecodeFact([]byte(data))
		var corrupt *CorruptError
		require.ErrorAs(t, err, &corrupt, data)
	}
	for _, data := range []string{
		``, `null x`, `[]`, `{"v":1,"kind":"opened","run":"nonsense"}`,
		`{"v":1,"kind":"late","text":{"base64":"%"}}`,
	} {
		_, err := DecodeFact([]byte(data))
		require.Error(t, err, data)
	}
	_, err := FactOf(session.Raw(`{"v":1,"kind":"opened","at":1}`))
	require.NoError(t, err)
	_, err = FactOf(nil)
	require.Error(t, err)
}

// TestApplyRefusesWhatCannotHaveHappened folds facts that do not fit: each is a typed error, none a
// panic.
func TestApplyRefusesWhatCannotHaveHappened(t *testing.T) {
	s := newScene()
	for _, c := range []string{"open", "spawn top a", "grant a", "spawn a b", "grant b", "done b say=x"} {
		s.run(c)
	}
	a, b := s.names["a"], s.names["b"]
	orphan := &Spec{
		Key: session.Must(a.Child("main", "x")), Parent: session.Must(a.Child("main", "y")),
		Grant: &Grant{},
	}
	for name, f := range map[string]Fact{
		"an epoch that is over":        {Kind: Opened, Num: 1},
		"a run without requester":      {Kind: Admitted, Spec: orphan},
		"a run twice":                  {Kind: Admitted, Spec: &Spec{Key: a, Parent: top, Grant: &Grant{}}},
		"a session that is not there":  {Kind: Posted, Run: session.Must(a.Child("main", "z"))},
		"an input out of order":        {Kind: Posted, Run: a, Ord: 7, Class: User},
		"a turn twice":                 {Kind: TurnStarted, Run: a, N: 2},
		"a turn out of order":          {Kind: TurnStarted, Run: top, N: 3},
		"a turn of what has ended":     {Kind: TurnStarted, Run: b, N: 2, Ord: 1},
		"a turn over what is not said": {Kind: TurnStarted, Run: top, N: 1, Ord: 4},
		"another turn's end":           {Kind: TurnEnded, Run: a, N: 2},
		"inputs that are not there":    {Kind: Taken, Run: a, N: 1, Ord: 9},
		"inputs given back":            {Kind: Taken, Run: a, N: 1, Ord: 0},
		"an end during a turn":         {Kind: RunEnded, Run: a, State: OK},
		"an end twice":                 {Kind: RunEnded, Run: b, State: OK},
		"an end of the top":            {Kind: RunEnded, Run: top, State: OK},
		"a stop of what has ended":     {Kind: StopRequested, Run: b, Cause: Stopped},
		"an archive of what lives":     {Kind: Archived, Run: a},
		"an archive of the top":        {Kind: Archived, Run: top},
		"a delivery of nothing":        {Kind: Delivered, Ord: 1},
		"a snapshot in between":        {Kind: Snapshot, FactMore: &FactMore{Image: &Image{}}},
		"skills without a turn":        {Kind: SkillsTaken, Run: a, N: 2, FactMore: &FactMore{Skills: &SkillSet{}}},
		"a sub-agent that speaks":      {Kind: Said, Run: a, N: 1, Ord: 1, Answer: &Result{Reply: "x"}},
		"a reset of a sub-agent":       {Kind: Reset, Run: a, FactMore: &FactMore{ID: "x"}, Text: "a"},
		"a reset beside a child":       {Kind: Reset, Run: top, FactMore: &FactMore{ID: "x"}, Text: "s1"},
		"nothing to put away":          {Kind: PutAway, Run: top, FactMore: &FactMore{ID: "s1"}},
		"a sub-agent that compacts":    {Kind: TurnStarted, Run: a, N: 2, Ord: 1, Flags: FlagCompact},
		"a compaction that was none":   {Kind: TurnEnded, Run: a, N: 1, Flags: FlagCompact},
		"a milestone out of order":     {Kind: Reported, Run: a, N: 1, Ord: 2},
		"a milestone after the turn":   {Kind: Reported, Run: a, N: 2, Ord: 1},
		"a state after the turn":       {Kind: Kept, Run: a, N: 2, Text: "x"},
		"words heard after the turn":   {Kind: Heard, Run: a, N: 2},
		"a message after the turn":     {Kind: Sent, Run: a, N: 2, FactMore: &FactMore{From: others[0], ID: "x"}},
		"a message to a sub-agent":     {Kind: Sent, Run: a, FactMore: &FactMore{From: b, ID: "x"}},
		"a message to its own tree":    {Kind: Sent, Run: a, FactMore: &FactMore{From: top, ID: "x"}},
		"a message without an id":      {Kind: Sent, Run: a, FactMore: &FactMore{From: others[0]}},
		"a kind that is none":          {Kind: kinds, Run: a},
	} {
		folded, err := s.log.fold(top, &s.opt)
		require.NoError(t, err)
		err = folded.Replay(&f)
		var corrupt *CorruptError
		var illegal *TransitionError
		require.True(t, errors.As(err, &corrupt) || errors.As(err, &illegal), "%s: %v", name, err)
	}
}

// A reset that cannot have happened is refused.
func TestApplyRefusesResets(t *testing.T) {
	s := newScene()
	for _, c := range []string{
		"open", "post top text=x", "grant top", "done top", "reset top to=s2",
	} {
		s.run(c)
	}
	for name, f := range map[string]Fact{
		"from another conversation":   {Kind: Reset, Run: top, FactMore: &FactMore{ID: "s3"}, Text: "s1"},
		"to the same conversation":    {Kind: Reset, Run: top, FactMore: &FactMore{ID: "s2"}, Text: "s2"},
		"to an earlier one":           {Kind: Reset, Run: top, FactMore: &FactMore{ID: "s1"}, Text: "s2"},
		"to none":                     {Kind: Reset, Run: top, Text: "s2"},
		"the present one is archived": {Kind: PutAway, Run: top, FactMore: &FactMore{ID: "s2"}},
		"a compaction that reads":     {Kind: TurnStarted, Run: top, N: 2, Ord: 2, Flags: FlagCompact},
	} {
		folded, err := s.log.fold(top, &s.opt)
		require.NoError(t, err)
		var corrupt *CorruptError
		require.ErrorAs(t, folded.Replay(&f), &corrupt, name)
	}
}

// A snapshot is refused as a whole if it cannot be the image of a tree.
func TestReplayRefusesImagesOfNoTree(t *testing.T) {
	root := RunState{Spec: &Spec{Key: top, Grant: &Grant{}}, State: Waiting}
	child := func(change func(*RunState)) RunState {
		spec := &Spec{Key: session.Must(top.Child("main", "a")), Parent: top, Grant: &Grant{}}
		s := RunState{Spec: spec, State: Queued}
		change(&s)
		return s
	}
	elsewhere := session.Must(top.Child("main", "x"))
	for name, runs := range map[string][]RunState{
		"no session":            {},
		"a child first":         {child(func(*RunState) {}), root},
		"the top twice":         {root, root},
		"an orphan":             {root, child(func(s *RunState) { s.Spec.Parent = elsewhere })},
		"a child twice":         {root, child(func(*RunState) {}), child(func(*RunState) {})},
		"a child without terms": {root, child(func(s *RunState) { s.Spec.Grant = nil })},
		"a state of none":       {root, child(func(s *RunState) { s.State = states })},
		"a cause of none":       {root, child(func(s *RunState) { s.Cause = causes })},
	} {
		s := newScene()
		err := New(top, &s.opt).Replay(snapshotOf(&Image{Epoch: 1, Runs: runs}))
		var corrupt *CorruptError
		require.ErrorAs(t, err, &corrupt, name)
	}
	s := newScene()
	good := &Image{Epoch: 1, Runs: []RunState{root, child(func(*RunState) {})}}
	require.NoError(t, New(top, &s.opt).Replay(snapshotOf(good)))
}

// What a caller hands over must come back from the journal as it was, so what JSON cannot hold is
// refused at the door.
func TestIdentifiersAreUTF8(t *testing.T) {
	s := newScene()
	s.run("open")
	var input *InputError
	_, err := s.tree.Decide(&Spawn{Parent: top, ID: "a", Task: "x", Key: "\xff"}, s.now)
	require.ErrorAs(t, err, &input)
	_, err = s.tree.Decide(&Spawn{Parent: top, ID: "a", Task: "x", Label: "\xff"}, s.now)
	require.ErrorAs(t, err, &input)
	_, err = s.tree.Decide(&Post{To: top, ID: "\xff", Text: "x"}, s.now)
	require.ErrorAs(t, err, &input)
	s.run("spawn top a")
	_, err = s.tree.Decide(&Steer{To: s.names["a"], ID: "\xff", Text: "x"}, s.now)
	require.ErrorAs(t, err, &input)
}

func TestUsageIsCleaned(t *testing.T) {
	zero := 0.0
	u := Usage{
		Input: -5, Output: 1 << 62, CacheRead: -1, CacheWrite: 1 << 62, Cost: zero / zero,
	}.Clean()
	require.Equal(t, Usage{Output: maxUsage, CacheWrite: maxUsage}, u)
	huge := Usage{Input: 1 << 62, Output: 1 << 62, Cost: 1 / zero}
	require.Positive(t, huge.Clean().Charge().Micros)
	whole := Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Cost: 0.5}
	require.Equal(t, whole, whole.Clean())
	twice := Usage{Input: 2, Output: 4, CacheRead: 6, CacheWrite: 8, Cost: 1}
	require.Equal(t, twice, whole.add(whole))
}

func TestBudgetsDoNotCountTheTokensOfCaches(t *testing.T) {
	used := Usage{Input: 1, Output: 2, CacheRead: 300, CacheWrite: 400, Cost: 0.5}
	require.Equal(t, Budget{Tokens: 3, Micros: 500_000}, used.Charge())
}

// usages are amounts as journals hold them, before caches were counted and since.
var usages = map[string]Usage{
	`{"input":1,"output":2,"cost":0.5}`:                              {Input: 1, Output: 2, Cost: 0.5},
	`{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"cost":0.5}`: {Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Cost: 0.5},
	`{"cacheRead":3}`: {CacheRead: 3},
}

func turnEndedWith(usage string) []byte {
	return []byte(`{"v":1,"kind":"turn_ended","at":1,"run":"agent:main:main","n":1,"answer":{"text":"a","usage":` + usage + `}}`)
}

func snapshotWith(t require.TestingT, u Usage) []byte {
	spec := &Spec{ID: "i", SessionID: "s", Key: top, Grant: &Grant{Agent: "main", Role: session.RoleMain}}
	data, err := (&Fact{Kind: Snapshot, At: 1, FactMore: &FactMore{Image: &Image{
		Epoch: 1, Runs: []RunState{{Spec: spec, State: Waiting, Usage: u}},
	}}}).AppendJSON(nil)
	require.NoError(t, err)
	return data
}

func TestUsageInTheJournal(t *testing.T) {
	for text, want := range usages {
		data := turnEndedWith(text)
		f, err := DecodeFact(data)
		require.NoError(t, err)
		require.Equal(t, want, f.Answer.Usage)
		again, err := f.AppendJSON(nil)
		require.NoError(t, err)
		require.Equal(t, string(data), string(again), "amounts of zero are left out")

		data = snapshotWith(t, want)
		require.Contains(t, string(data), `"usage":`+text)
		f, err = DecodeFact(data)
		require.NoError(t, err)
		require.Equal(t, want, f.Image().Runs[0].Usage)
	}
	require.NotContains(t, string(snapshotWith(t, Usage{})), "usage")
}

// FuzzDecodeFact reads bytes as a journal of one to three facts: whatever they are, folding them
// gives a tree or an error, and what was read is written down again as it was.
func FuzzDecodeFact(f *testing.F) {
	r := filler{rand.New(rand.NewPCG(3, 4))}
	for k := Opened; k < kinds; k++ {
		data, err := r.fact(k).AppendJSON(nil)
		require.NoError(f, err)
		f.Add(data)
	}
	for text, u := range usages {
		f.Add(turnEndedWith(text))
		f.Add(snapshotWith(f, u))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fact, err := DecodeFact(data)
		if err != nil {
			return
		}
		written, err := fact.AppendJSON(nil)
		require.NoError(t, err)
		again, err := DecodeFact(written)
		require.NoError(t, err)
		rewritten, err := again.AppendJSON(nil)
		require.NoError(t, err)
		require.Equal(t, string(written), string(rewritten))
		_ = fact.String()
		s := newScene()
		if New(top, &s.opt).Replay(again) != nil {
			return
		}
		for _, c := range []string{"open", "spawn top a", "grant a", "spawn a b"} {
			s.run(c)
		}
		_ = s.tree.Replay(fact)
	})
}
