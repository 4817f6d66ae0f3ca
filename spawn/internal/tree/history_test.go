package tree

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A driver plays the world to one tree: it turns bytes into commands, does what the effects say,
// and checks after every command what must hold then.
type driver struct {
	data     []byte
	rules    policy.Rules
	opt      Options
	tree     *Tree
	log      ledger
	commands int
	trace    bytes.Buffer // of all facts and effects
	now      int64
	ids      int

	keys     []session.Key        // ever admitted
	asked    map[session.Key]bool // the lane has a ticket
	slots    map[session.Key]int  // of the lane, held
	started  map[session.Key]uint32
	told     map[session.Key]bool // to return
	flying   []*Entry             // handed over, in order
	hungMore map[uint32][]uint32  // the further entries of calls that hang
	hung     []uint32
	arrived  map[Destination]uint32 // the last one that arrived in order
	before   map[uint32]*Entry      // the outbox before the command
	archived map[session.Key]bool   // asked for
	used     int64                  // by the turns that have ended

	unbindings []unbinding           // asked for
	records    map[session.Key]*Fact // of archived sessions
	revived    map[session.Key]bool  // what they used before is in the ledgers above them
	restoring  map[session.Key]bool  // asked for

	deposits []Spawn       // whose callers may still spawn
	dropping []session.Key // whose files the Executor removes

	joined  map[runName]bool // a session has waited for it
	updated map[runName]bool // people were told of its end

	strangers strangers

	again bool // it has been checked

	happened map[string]int // by kinds of commands, facts and coincidences
	instant  map[session.Key]instantFacts
}

func newDriver(data []byte) *driver {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	d := &driver{data: data, now: now, keys: []session.Key{top}}
	d.arrived = make(map[Destination]uint32)
	b := d.byte()
	d.rules.Subagents = policy.Subagents{MaxSpawnDepth: 3, MaxChildren: 3}
	d.rules.Owners, d.strangers = []policy.Person{{ID: "ann"}}, newStrangers()
	d.rules.DefaultDeny = []string{}
	if b&1 != 0 {
		d.rules.Budget.Tokens = 1500
	}
	d.opt = Options{
		Rules: &d.rules, CallerRun: b&2 != 0, Replies: b&4 != 0,
		Grace: 10 * time.Second, ArchiveAfter: time.Hour,
		Chunk: Budget{Tokens: 200}, Apology: "sorry", StepTimeout: 20 * time.Second,
		Tools: []string{ownersTool, "read"},
	}
	if b&8 != 0 {
		d.opt.ArchiveAfter = time.Minute
	}
	if b&16 != 0 {
		d.rules.RequestBudget.Tokens = 700
	}
	if b&32 != 0 {
		d.opt.ArchiveAfter = 0
	}
	d.opt.Unbinds, d.records = b&64 == 0, make(map[session.Key]*Fact)
	d.revived = make(map[session.Key]bool)
	d.joined, d.updated = make(map[runName]bool), make(map[runName]bool)
	d.happened, d.instant = make(map[string]int), make(map[session.Key]instantFacts)
	d.tree = New(top, &d.opt)
	d.reset()
	return d
}

// reset forgets what dies with a process.
func (d *driver) reset() {
	d.asked, d.slots = make(map[session.Key]bool), make(map[session.Key]int)
	d.started, d.told = make(map[session.Key]uint32), make(map[session.Key]bool)
	d.flying, d.hung, d.archived = nil, nil, make(map[session.Key]bool)
	d.hungMore = make(map[uint32][]uint32)
	d.unbindings, d.restoring = nil, make(map[session.Key]bool)
	d.deposits, d.dropping = nil, nil
}

func (d *driver) byte() byte {
	if len(d.data) == 0 {
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return b
}

func (d *driver) key() session.Key { return d.keys[int(d.byte())%len(d.keys)] }

// keyOf returns a session that has what is wanted, and any one if none has.
func (d *driver) keyOf(wanted func(session.Key) bool) session.Key {
	n := int(d.byte())
	var list []session.Key
	for _, k := range d.keys {
		if wanted(k) {
			list = append(list, k)
		}
	}
	if len(list) == 0 || n%8 == 0 {
		list = d.keys
	}
	return list[n/8%len(list)]
}

// busy returns a session with a turn under way.
func (d *driver) busy() session.Key {
	return d.keyOf(func(k session.Key) bool { _, ok := d.started[k]; return ok })
}

// alive returns a session whose run has not ended, and ended one whose run has.
func (d *driver) alive() session.Key {
	return d.keyOf(func(k session.Key) bool {
		r := d.tree.Run(k)
		return r != nil && !r.State.Terminal()
	})
}

func (d *driver) ended() session.Key {
	return d.keyOf(func(k session.Key) bool {
		r := d.tree.Run(k)
		return r != nil && r.State.Terminal()
	})
}

// blocked returns the ordinal of an entry of the outbox, of a blocked one if there is one.
func (d *driver) blocked(n byte) uint32 {
	for _, ord := range d.tree.outbox.ords() {
		if d.tree.Entry(ord).Blocked > 0 && n%8 > 0 {
			return ord
		}
	}
	return uint32(n)
}

func (d *driver) id() string {
	d.ids++
	return fmt.Sprintf("%08d-0000-4000-8000-000000000000", d.ids)
}

// run plays everything there is, then lets the tree come to rest.
func (d *driver) run() error {
	if err := d.do(&Open{Writer: "w", SessionID: "s"}); err != nil {
		return err
	}
	for len(d.data) > 0 {
		if err := d.step(); err != nil {
			return err
		}
	}
	return d.rest()
}

func (d *driver) step() error {
	switch what := d.byte(); what % 26 {
	case 0, 1, 2:
		return d.spawn(what)
	case 3:
		if what >= 128 {
			return d.post(d.ended(), d.byte())
		}
		return d.post(d.alive(), d.byte())
	case 4:
		k := d.alive()
		id := "s" + strconv.Itoa(int(d.byte()%16))
		return d.do(&Steer{
			From: top, To: k, ID: id, Text: "this way", Senders: speakers(what >> 5),
		})
	case 5, 6, 7:
		return d.grant(d.keyOf(func(k session.Key) bool { return d.asked[k] }))
	case 8, 9, 10, 11:
		k := d.busy()
		if err := d.turnDone(k, d.byte(), d.byte()); err != nil {
			return err
		}
		return d.announce(k, d.byte())
	case 12:
		k := d.busy()
		if err := d.do(Take{Run: k, N: d.started[k]}); err != nil {
			return err
		}
		used := d.byte()
		keep := KeepSkills{Run: k, N: d.started[k], Skills: &SkillSet{
			Version: strconv.Itoa(int(used)), Skills: []SkillRef{{Name: "pdf"}},
		}}
		if err := d.do(keep); err != nil {
			return err
		}
		state := Keep{Run: k, N: d.started[k], Kept: Text(strconv.Itoa(int(used % 3)))}
		if err := d.do(state); err != nil {
			return err
		}
		say := &Say{Run: k, N: d.started[k], Num: uint32(used % 4), Answer: Result{Reply: "well"}}
		if say.Num == 0 {
			say.ID = "named"
		}
		if err := d.do(InTurn{Run: k, N: d.started[k], Cmd: say}); err != nil {
			return err
		}
		report := &Report{Run: k, N: d.started[k], Text: "half", Percent: used % 101}
		if err := d.do(InTurn{Run: k, N: d.started[k], Cmd: report}); err != nil {
			return err
		}
		if err := d.write(k, used, d.started[k]); err != nil {
			return err
		}
		hear := Hear{Senders: speakers(used >> 2)}
		if err := d.do(InTurn{Run: k, N: d.started[k], Cmd: hear}); err != nil {
			return err
		}
		return d.do(Reserve{Run: k, N: d.started[k], Used: Budget{Tokens: int64(used) * 4}})
	case 13:
		return d.do(CancelTurn{Run: d.busy()})
	case 14:
		return d.stop()
	case 15:
		return d.settle(d.byte(), d.byte())
	case 16:
		return d.wait(what)
	case 17:
		b := d.byte()
		if b&1 != 0 {
			return d.do(Retry{Ord: d.blocked(b >> 1)})
		}
		return d.do(Dismiss{Ord: d.blocked(b >> 1)})
	case 18:
		return d.crash(d.byte())
	case 19:
		return d.rare(d.byte())
	}
	return d.session(d.byte())
}

// spawn asks for a child, in one of the ways there are.
func (d *driver) spawn(what byte) error {
	parent, how := d.alive(), d.byte()
	c := &Spawn{Parent: parent, ID: d.id(), Task: "work", Announce: how&1 == 0}
	c.Milestones = how&16 != 0
	if n := d.started[parent]; n > 0 && how&64 != 0 {
		c.Turn = n
	} else {
		c.Senders = speakers(how >> 5)
	}
	if how&32 != 0 {
		c.Name = "n" + strconv.Itoa(int(how>>6))
	}
	if how&2 != 0 {
		c.Key = "k" + strconv.Itoa(int(how>>5))
	}
	if how&4 != 0 {
		c.Request.Timeout = time.Duration(how) * time.Second
	}
	if how&8 != 0 {
		c.Request.Budget.Tokens = int64(how) * 10
	}
	if what >= 64 {
		c.Request.Announce = policy.AnnounceTurn
	}
	if how&129 == 129 && parent.IsMain() {
		if c.Update = true; how&16 != 0 {
			c.Route = &session.Route{Channel: "irc", To: string('a' + rune(how>>5&3))}
		}
	}
	return d.do(c)
}

// wait lets a while pass. Some are long enough for entries to be blocked, and for archives.
func (d *driver) wait(what byte) error {
	unit := 700 * time.Millisecond
	if what >= 172 {
		unit = 20 * time.Second
	}
	d.pass(d.byte(), unit)
	return d.do(Tick{Rand: uint64(what)})
}

// outage has every receiver fail for longer than an entry is tried.
func (d *driver) outage() error {
	for range 6 {
		for range len(d.flying) {
			if err := d.settle(0, 1); err != nil {
				return err
			}
		}
		d.now += int64(10 * time.Minute)
		if err := d.do(Tick{}); err != nil {
			return err
		}
	}
	return nil
}

// stop stops a session, which rarely is the top-level one.
func (d *driver) stop() error {
	c := &Stop{Run: d.key(), Reason: "enough"}
	if c.Run == top && d.byte()%4 > 0 {
		return nil
	}
	return d.do(c)
}

// rare does what happens now and then.
func (d *driver) rare(what byte) error {
	switch what % 8 {
	case 0:
		return d.do(Compact{})
	case 1:
		return d.outage()
	case 2:
		return d.do(Restart{Run: d.key(), SessionID: d.id(), ID: d.id()})
	case 3:
		return d.do(Condense{Run: d.key(), ID: d.id()})
	case 5:
		return d.write(d.key(), d.byte(), 0)
	case 4:
		if f := d.tree.root.Former; len(f) > 0 && d.archived[top] {
			delete(d.archived, top)
			return d.do(ArchiveDone{Run: top, Session: f[0].ID, Failed: d.byte()%2 == 0})
		}
	}
	for _, k := range d.keys {
		if d.archived[k] && k != top && d.tree.Run(k) != nil {
			delete(d.archived, k)
			return d.do(ArchiveDone{Run: k, Failed: what >= 192})
		}
	}
	return nil
}

// post posts a message, some with what people send beside words, or sets the route.
func (d *driver) post(to session.Key, how byte) error {
	c := &Post{To: to, ID: "m" + strconv.Itoa(int(how%16)), Text: "hello", RunID: d.id()}
	c.Senders = speakers(how >> 2)
	if how&32 != 0 { // another session sends it, or a program whose end is announced
		c.From, c.Announce, c.ByModel = d.key(), true, how&64 != 0
	}
	if how&16 != 0 {
		c.Route = &session.Route{Channel: "irc", To: string('a' + rune(how>>6))}
	}
	if how&32 != 0 {
		c.Mail = &Mail{Sender: session.Sender{ID: "ann"}, Meta: map[string]string{"n": c.ID}}
	}
	if how >= 240 && how < 250 { // the program announces something, of a sub-agent in vain
		return d.do(&Post{To: to, ID: c.ID, Text: "an event", Event: true})
	}
	if how >= 250 {
		return d.do(SetRoute{Run: to, Route: session.Route{Channel: "sms", To: "b"}})
	}
	return d.do(c)
}

// grant lets the lane answer, if it was asked.
func (d *driver) grant(k session.Key) error {
	if !d.asked[k] {
		return nil
	}
	delete(d.asked, k)
	if d.tree.Run(k) != nil { // else the Executor gives the slot back
		d.slots[k]++
	}
	return d.do(Granted{Run: k})
}

func (d *driver) turnDone(k session.Key, how, say byte) error {
	n, ok := d.started[k]
	if !ok {
		return nil
	}
	answer := &Result{Text: Text([]byte{say}), Usage: Usage{Input: int64(say)}}
	switch say % 4 {
	case 1:
		answer.Model = Text("p/" + strconv.Itoa(int(how%3)))
	case 2:
		answer.Own().ByModel = []ModelUsage{
			{"p/1", Usage{Input: int64(say / 2)}}, {"", Usage{Input: int64(say - say/2)}},
		}
	}
	c := &TurnDone{Run: k, N: n, Answer: answer, Rand: uint64(how), Compacted: uint32(say % 8)}
	if r := d.tree.Run(k); r != nil {
		c.Pos = r.Pos + uint64(how%4)
	}
	switch how % 8 {
	case 0:
		c.Failed = "broken"
	case 1:
		c.Yield = &Join{}
	case 2:
		c.Yield = &Join{Need: 1, Within: int64(time.Minute)}
	case 5:
		c.Yield = &Join{Need: 1, Within: int64(time.Minute), Rest: Rest(say % 3)}
	case 3:
		c.Silent, c.Skip = true, how&64 != 0
	case 4:
		c.Answer.Reply = "hi"
	case 6:
		c.Answer.Own().Refused = "not what was asked for"
	case 7:
		if say%2 == 0 {
			c.Answer.Text = ""
		}
	}
	if how&128 == 0 {
		delete(d.started, k)
	} // else it comes again, and is stale
	return d.do(c)
}

// crash folds the journal and opens it, perhaps under another configuration.
func (d *driver) crash(how byte) error {
	t, err := d.log.fold(top, &d.opt)
	if err != nil {
		return err
	}
	if how&3 == 3 {
		d.opt.CallerRun = !d.opt.CallerRun
	}
	if how&12 == 12 {
		d.opt.Ends = !d.opt.Ends
	}
	if how&32 != 0 {
		if err := d.do(ShutDown{}); err != nil {
			return err
		}
		if err := d.leave(how); err != nil {
			return err
		}
		if t, err = d.log.fold(top, &d.opt); err != nil {
			return err
		}
	}
	d.tree = t
	d.reset()
	d.pass(how, time.Second)
	open := &Open{Writer: "w", Rand: uint64(how)}
	if how&64 != 0 { // the journal was repaired in between
		open.Repair, open.RepairEpoch = fmt.Sprint("mark", how>>4), uint64(how)<<8
	}
	return d.do(open)
}

// pass lets how units of time pass. For one value of how in sixteen the clock jumps, back or
// forward.
func (d *driver) pass(how byte, unit time.Duration) {
	d.now += int64(how) * int64(unit)
	if how%16 == 5 {
		jumps := [...]time.Duration{2 * time.Second, time.Hour, 24 * time.Hour, 87600 * time.Hour}
		by := int64(jumps[how>>4&3])
		if back := how>>6 > 0; back && d.now > 2*by {
			by = -by
		}
		d.now += by
	}
}

// history plays bytes twice and compares. It counts what happens, unless happened is nil.
func history(data []byte, happened map[string]int) error {
	a := newDriver(data)
	if err := a.run(); err != nil {
		return err
	}
	for what, n := range a.happened {
		if happened != nil {
			happened[what] += n
		}
	}
	b := newDriver(data)
	b.again = true
	if err := b.run(); err != nil {
		return err
	}
	first := bytes.Split(a.trace.Bytes(), []byte("\n"))
	second := bytes.Split(b.trace.Bytes(), []byte("\n"))
	for i := range first {
		if i >= len(second) || !bytes.Equal(first[i], second[i]) {
			return fmt.Errorf("deciding is not deterministic: line %d was %s", i, first[i])
		}
	}
	return nil
}

// TestHistories plays random histories. OFFSHOOT_FUZZ sets how many; a failure names the seed,
// OFFSHOOT_SEED plays that one.
func TestHistories(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("OFFSHOOT_FUZZ"))
	if n == 0 {
		n = raced(500, 5)
	}
	if testing.Short() {
		n = 50
	}
	first := rand.Uint64() >> 1
	if seed, err := strconv.ParseUint(os.Getenv("OFFSHOOT_SEED"), 10, 64); err == nil {
		first, n = seed, 1
	}
	happened := make(map[string]int)
	for seed := first; seed < first+uint64(n); seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		data := make([]byte, 20+r.IntN(400))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		if err := history(data, happened); err != nil {
			t.Fatalf("OFFSHOOT_SEED=%d: %v", seed, err)
		}
	}
	checkHappened(t, happened, n >= 500)
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 600 {
			t.Skip()
		}
		if err := history(data, nil); err != nil {
			t.Fatal(err)
		}
	})
}
