package announce

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// These are the bounds of a [Dedupe] whose fields are zero, and those that its fields may have.
const (
	KeepKeys    = 7 * 24 * time.Hour // how long a key is remembered unless Keep says otherwise
	MinKeepKeys = time.Hour          // the least Keep
	MaxKeys     = 1_000_000          // how many keys are remembered, and the greatest Max
)

// keepWithin is how long a key that was acted upon may take to be recorded.
const keepWithin = 10 * time.Second

// A Dedupe remembers the keys of deliveries that were acted upon, so that a receiver behind it acts
// once for each. The zero Dedupe remembers them in memory, with a Journal it remembers them over
// restarts:
//
//	seen := &announce.Dedupe{Journal: store.Journal}
//	cfg.Deliver, cfg.Reply = seen.Once(bot.deliver), seen.Once(bot.reply)
//
// One Dedupe serves all receivers of a program, because no two deliveries share a key. Its fields
// are not changed after the first call. All methods may be called concurrently. A Dedupe must not
// be copied.
//
// # What is left
//
// The receiver acts, and then the key is recorded. A process that dies between the two has acted
// and does not know it: the next one is handed the delivery again, with MayRepeat set, and acts
// again. At that one moment it is at least once, as without a Dedupe. A receiver closes the gap if
// its effect and the key are one: it gives [spawn.Delivery.Key] to its transport as the idempotency
// key of the request, or stores the key in the transaction that has the effect, and needs no Dedupe
// then. A receiver that has acted and returns an error all the same is called again, too.
//
// # How long a key is of use
//
// Once Once has returned nil, the library repeats a key only if it could not record that: the
// process died, or another one took over the tree. The next process calls again at its start, or,
// behind a delivery of the same destination that fails, within half an hour. The time in which no
// process runs does not count, and a clock that jumps has no influence: Keep is time in which the
// receiver runs. A person may call for a blocked delivery at any time later, see
// [spawn.Supervisor.Retry]: if it had arrived in spite of its failures, and its key is forgotten,
// it arrives once more, with Late set.
//
// A Journal that is restored from an older copy has the keys of that time. What has arrived since
// then may arrive again, see [session.MarkRepaired].
type Dedupe struct {
	// Journal keeps the keys, under [session.DeliveredRoot]. It may be that of the program's own
	// Store, or one that several processes share. Nil: the keys are in memory alone.
	Journal session.Journal
	// Keep is how long a key is remembered: at least MinKeepKeys of time in which the receiver
	// runs. Zero: KeepKeys.
	Keep time.Duration
	// Max is how many keys are remembered, at most MaxKeys. Beyond it the oldest are forgotten.
	// One takes about 100 bytes of memory and 25 bytes of the Journal. Zero: MaxKeys.
	Max int

	mu     sync.Mutex
	calls  map[keyID]chan struct{} // under way; closed when it is over
	acted  map[keyID]bool          // acted upon, and not recorded
	known  keySet
	loaded bool // known has what the log had once

	// Only one call at a time uses the Journal, last and facts: it has taken them. The others wait,
	// each at a channel of its own, because a channel belongs to the synctest bubble that made it.
	taken   bool
	waiting []chan struct{}

	last  session.Seq
	facts int // in the log since its snapshot
}

// Once returns a receiver that calls act for a delivery whose key is new, and remembers the key
// when act has returned nil. For a key that it knows it returns nil and does nothing. It returns
// the error of act as it is, and does not remember the key. Of a delivery with More, act gets those
// whose keys are new, in one call.
//
// If a key that was acted upon cannot be recorded, the receiver returns an error, and when the
// delivery comes again it records the key and does not act. If the Journal cannot be read, the
// receiver returns an error and does not act. A call waits while another call with the same key is
// under way.
func (d *Dedupe) Once(
	act func(ctx context.Context, d spawn.Delivery) error,
) func(ctx context.Context, d spawn.Delivery) error {
	return func(ctx context.Context, out spawn.Delivery) error {
		if act == nil {
			return errors.New("announce: Dedupe.Once was given a nil function")
		}
		list := out.All()
		ids := make([]keyID, 0, len(list))
		defer func() { // also if act panics or ends its goroutine
			for _, id := range ids {
				d.end(id)
			}
		}()
		for i := range list {
			if list[i].Key == "" {
				return errors.New("announce: a Dedupe was given a delivery without a Key")
			}
			id := newKeyID(list[i].Key)
			if slices.Contains(ids, id) {
				return fmt.Errorf("announce: a Dedupe was given the key %q twice in one call",
					list[i].Key)
			}
			if err := d.begin(ctx, id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		if err := d.refresh(ctx, slices.ContainsFunc(list, mayRepeat)); err != nil {
			return err
		}
		return d.actOnce(ctx, act, list, ids)
	}
}

func mayRepeat(d spawn.Delivery) bool { return d.MayRepeat }

// actOnce calls act for those of a list whose keys are new, if there are any, and records the keys
// that are not on record.
func (d *Dedupe) actOnce(
	ctx context.Context, act func(ctx context.Context, d spawn.Delivery) error,
	list []spawn.Delivery, ids []keyID,
) error {
	var news []spawn.Delivery
	var unrecorded, unacted []keyID
	for i, id := range ids {
		known, acted := d.look(id)
		if known {
			continue
		}
		unrecorded = append(unrecorded, id)
		if !acted {
			news, unacted = append(news, list[i]), append(unacted, id)
		}
	}
	if len(news) > 0 {
		first := news[0]
		if len(news) > 1 {
			first.More = news[1:]
		}
		if err := act(ctx, first); err != nil {
			return err
		}
		for _, id := range unacted {
			d.note(id)
		}
	}
	// What was done is recorded also if ctx has ended meanwhile.
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepWithin)
	defer cancel()
	for _, id := range unrecorded { // the first time records all that were acted upon
		if err := d.record(soon, id); err != nil {
			return err
		}
	}
	return nil
}

// begin waits until no other call with a key is under way.
func (d *Dedupe) begin(ctx context.Context, id keyID) error {
	for {
		d.mu.Lock()
		if d.calls == nil {
			d.calls, d.acted = make(map[keyID]chan struct{}), make(map[keyID]bool)
		}
		other, held := d.calls[id]
		if !held {
			d.calls[id] = make(chan struct{})
		}
		d.mu.Unlock()
		if !held {
			return nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return fmt.Errorf("announce: another call with the same key is under way: %w", ctx.Err())
		}
	}
}

// end lets the next call with a key begin.
func (d *Dedupe) end(id keyID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.calls[id])
	delete(d.calls, id)
}

// look returns what is known of a key.
func (d *Dedupe) look(id keyID) (known, acted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known.has(id), d.acted[id]
}

// note notes that a key was acted upon and has to be recorded.
func (d *Dedupe) note(id keyID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acted[id] = true
}

// take waits until the caller alone may use the Journal, which give ends.
func (d *Dedupe) take(ctx context.Context) error {
	d.mu.Lock()
	if !d.taken {
		d.taken = true
		d.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	d.waiting = append(d.waiting, mine)
	d.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	d.mu.Lock()
	i := slices.Index(d.waiting, mine)
	if i >= 0 {
		d.waiting = slices.Delete(d.waiting, i, i+1)
	}
	d.mu.Unlock()
	if i < 0 { // it was given meanwhile
		d.give()
	}
	return fmt.Errorf("announce: waiting for the keys of deliveries: %w", ctx.Err())
}

// give lets the call that has waited longest use the Journal.
func (d *Dedupe) give() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) == 0 {
		d.taken = false
		return
	}
	close(d.waiting[0])
	d.waiting = slices.Delete(d.waiting, 0, 1)
}

// refresh reads the log before the first delivery, and what other processes have added to it before
// one that may be a repeat of theirs.
func (d *Dedupe) refresh(ctx context.Context, mayRepeat bool) error {
	if d.isLoaded() && (!mayRepeat || d.Journal == nil) {
		return nil
	}
	if err := d.take(ctx); err != nil {
		return err
	}
	defer d.give()
	if err := d.configure(); err != nil {
		return err
	}
	_, err := d.catchUp(ctx, "")
	return err
}

func (d *Dedupe) isLoaded() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.loaded
}

// configure takes the fields over at the first call.
func (d *Dedupe) configure() error {
	keep, most := cmp.Or(d.Keep, KeepKeys), cmp.Or(d.Max, MaxKeys)
	switch {
	case keep < MinKeepKeys:
		return fmt.Errorf("announce: Dedupe.Keep is %v: want 0 or at least %v", keep, MinKeepKeys)
	case most < 0 || most > MaxKeys:
		return fmt.Errorf("announce: Dedupe.Max is %d: want 0 to %d", most, MaxKeys)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known.at == nil {
		d.known = keySet{
			keep: int64(keep / time.Second), most: most, at: make(map[keyID]int64), now: time.Now(),
		}
	}
	return nil
}

// record records a key that was acted upon, with all others that wait for that. After a conflict
// with another process it reads and tries again. If the outcome of an append is not known, it reads
// the log and looks for the batch by its id.
func (d *Dedupe) record(ctx context.Context, id keyID) error {
	if err := d.take(ctx); err != nil {
		return err
	}
	defer d.give()
	for {
		f, batch := d.newFact(id)
		if f == nil {
			return nil // an earlier holder of the token has recorded it
		}
		if d.Journal == nil {
			d.apply(f, d.last)
			return nil
		}
		last, err := d.Journal.Append(ctx, session.DeliveredRoot(), d.last, batch)
		if err == nil {
			d.apply(f, last)
			return nil
		}
		found, readErr := d.catchUp(ctx, batch.ID)
		if readErr == nil && !found && errors.Is(err, session.ErrConflict) {
			continue
		}
		if readErr != nil || !found {
			return fmt.Errorf("announce: recording the key of a delivery: %w", err)
		}
		return nil
	}
}

// newFact returns the fact that records all keys that were acted upon, and its batch, or nil if the
// key id is recorded. If the log has grown long, the fact is a snapshot.
func (d *Dedupe) newFact(id keyID) (*keyFact, session.Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known.has(id) {
		return nil, session.Batch{}
	}
	at := d.known.running(time.Now())
	d.known.forget(at)
	group := keyGroup{At: at}
	for id := range d.acted {
		group.Keys = append(group.Keys, id)
	}
	f := &keyFact{Version: 1, Groups: []keyGroup{group}}
	if f.Snapshot = d.facts > max(1000, len(d.known.at)); f.Snapshot {
		f.Groups = append(d.known.groups(), group)
	}
	return f, session.Batch{
		ID:      session.BatchID("delivered-" + session.NewID()),
		Entries: []session.Entry{{Payload: f}}, Reset: f.Snapshot,
	}
}

// apply takes a fact of the log over.
func (d *Dedupe) apply(f *keyFact, last session.Seq) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.facts++; f.Snapshot {
		d.facts = 0
		d.known.clear()
	}
	for _, g := range f.Groups {
		for _, id := range g.Keys {
			d.known.add(id, g.At)
			delete(d.acted, id)
		}
	}
	d.known.forget(d.known.running(time.Now()))
	d.last = last
}

// catchUp applies what the log has after d.last, and reports whether the batch id is in it.
func (d *Dedupe) catchUp(ctx context.Context, id session.BatchID) (found bool, err error) {
	if d.Journal != nil {
		for e, err := range d.Journal.Read(ctx, session.DeliveredRoot(), d.last) {
			if err != nil {
				return false, fmt.Errorf("announce: reading the keys of deliveries: %w", err)
			}
			f, err := readKeyFact(e)
			if err != nil {
				return false, err
			}
			d.apply(f, e.Seq)
			found = found || id != "" && e.Batch == id
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loaded = true
	return found, nil
}

// A keyID stands for the key of a delivery: the first half of its SHA-256.
type keyID [16]byte

func newKeyID(key string) keyID {
	sum := sha256.Sum256([]byte(key))
	return keyID(sum[:16])
}

// MarshalText implements [encoding.TextMarshaler].
func (id keyID) MarshalText() ([]byte, error) {
	return base64.RawURLEncoding.AppendEncode(nil, id[:]), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *keyID) UnmarshalText(text []byte) error {
	b, err := base64.RawURLEncoding.AppendDecode(nil, text)
	if err != nil || len(b) != len(id) {
		return fmt.Errorf("announce: %.40q does not stand for the key of a delivery", text)
	}
	*id = keyID(b)
	return nil
}

// A keyFact is one entry of the log: keys that were acted upon. A snapshot replaces all before it.
type keyFact struct {
	Version  int        `json:"v"`
	Snapshot bool       `json:"snapshot,omitempty"`
	Groups   []keyGroup `json:"groups"`
}

// A keyGroup has the keys that were recorded at one time.
type keyGroup struct {
	At   int64   `json:"at"` // in seconds of the time in which the receiver has run
	Keys []keyID `json:"keys"`
}

// AppendJSON makes a keyFact a [session.Payload].
func (f *keyFact) AppendJSON(b []byte) ([]byte, error) {
	data, err := json.Marshal(f)
	return append(b, data...), err
}

// readKeyFact returns the fact in an entry of the log, whether the Journal kept or encoded it.
func readKeyFact(e session.Entry) (*keyFact, error) {
	f, ok := e.Payload.(*keyFact)
	if !ok {
		data, err := e.Payload.AppendJSON(nil)
		if err == nil {
			f = new(keyFact)
			err = json.Unmarshal(data, f)
		}
		if err != nil {
			return nil, fmt.Errorf("announce: keys of deliveries, entry %d: %w", e.Seq, err)
		}
	}
	if f.Version != 1 {
		return nil, fmt.Errorf(
			"announce: keys of deliveries, entry %d: version %d, written by a newer library?",
			e.Seq, f.Version)
	}
	return f, nil
}

// A keySet has the keys that are remembered. Times are in seconds in which the receiver has run,
// also in earlier processes: what is recorded last says how long they have.
type keySet struct {
	keep int64
	most int
	at   map[keyID]int64
	ids  []keyID // in the order in which they are forgotten
	base int64   // the time at now
	now  time.Time
}

// running returns the time, of which now is the reading of a clock that does not go back.
func (s *keySet) running(now time.Time) int64 {
	return s.base + int64(now.Sub(s.now)/time.Second)
}

func (s *keySet) has(id keyID) bool {
	_, ok := s.at[id]
	return ok
}

// add adds a key that was recorded at a time. The time goes on from there if it is behind that.
func (s *keySet) add(id keyID, at int64) {
	if ahead := at - s.running(time.Now()); ahead > 0 {
		s.base += ahead
	}
	if !s.has(id) {
		s.at[id] = at
		s.ids = append(s.ids, id)
	}
}

// forget forgets the keys that are too old at a time, and the oldest of too many.
func (s *keySet) forget(now int64) {
	for len(s.ids) > 0 && (len(s.ids) > s.most || s.at[s.ids[0]]+s.keep < now) {
		delete(s.at, s.ids[0])
		s.ids = s.ids[1:]
	}
}

func (s *keySet) clear() {
	clear(s.at)
	s.ids = nil
}

// groups returns all keys, those of one time together.
func (s *keySet) groups() (groups []keyGroup) {
	for _, id := range s.ids {
		at := s.at[id]
		if n := len(groups); n == 0 || groups[n-1].At != at {
			groups = append(groups, keyGroup{At: at})
		}
		g := &groups[len(groups)-1]
		g.Keys = append(g.Keys, id)
	}
	return slices.Clip(groups)
}
