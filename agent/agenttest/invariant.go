package agenttest

import (
	"cmp"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/internal/attach"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// noteReply remembers what reached a person. A reply that comes again must come under its key, say
// so, and be the same. The caller holds the lock.
func (h *Harness) noteReply(d agent.Delivery) {
	said := d.Reply.Text
	if text, ok := announce.Visible(said); !ok || text != said {
		h.t.Errorf("agenttest: reply %q holds what no person may see", said)
	}
	i := slices.IndexFunc(h.replies, func(x agent.Delivery) bool { return x.Key == d.Key })
	if i < 0 {
		h.replies = append(h.replies, d)
		return
	}
	if before := h.replies[i]; before.Reply.Text != said || before.To != d.To {
		h.t.Errorf("agenttest: reply %s is %q to %s, and was %q to %s before",
			d.Key, said, d.To, before.Reply.Text, before.To)
	}
	if d.Attempt < 2 && !d.MayRepeat {
		h.t.Errorf("agenttest: reply %s came again and does not say that it may have", d.Key)
	}
}

// subject names what a delivery for a session that the caller runs is about: the end of a run, or
// an event.
func subject(d agent.Delivery) string {
	if d.Event != nil {
		return "event " + d.Event.ID + " to " + d.To.String()
	}
	return "the end of run " + string(d.Completion.Run.ID)
}

// noteDelivery is noteReply for completions and events.
func (h *Harness) noteDelivery(d agent.Delivery) {
	about := subject(d)
	for _, before := range h.deliveries {
		switch same := subject(before) == about; {
		case before.Key == d.Key:
			first, _ := announce.EventOf(before)
			again, _ := announce.EventOf(d)
			if !same || first.ForModel() != again.ForModel() {
				h.t.Errorf("agenttest: delivery %s is another one than before", d.Key)
			}
			if d.Attempt < 2 && !d.MayRepeat {
				h.t.Errorf("agenttest: delivery %s came again and does not say that it may have",
					d.Key)
			}
			return
		case same:
			h.t.Errorf("agenttest: %s was delivered as %s and as %s", about, before.Key, d.Key)
		}
	}
	h.deliveries = append(h.deliveries, d)
}

// sessionFacts is what a journal says about one session.
type sessionFacts struct {
	ref       session.Ref
	id        string // of the first run
	runs      int
	parent    session.Key
	committed session.Pos    // end of the conversation
	past      []conversation // before resets
	// stopped, or with a turn that was given up: what it has not read ends with it
	mayLoseInputs bool
	ends          int
}

// A conversation is a transcript and how far it is committed.
type conversation struct {
	ref session.Ref
	end session.Pos
}

// conversations returns the present one and those before resets.
func (s *sessionFacts) conversations() []conversation {
	return append(slices.Clip(s.past), conversation{s.ref, s.committed})
}

// A tracker says which transcript a session has. It is told the facts in their order.
type tracker map[session.Key]session.Ref

func (t tracker) note(f fact) {
	switch f.Kind {
	case "opened":
		if _, known := t[f.root]; !known {
			t[f.root] = session.Ref{Key: f.root, SessionID: f.SessionID}
		}
	case "admitted", "reset":
		t[f.Run] = session.Ref{Key: f.Run, SessionID: f.SessionID}
	}
}

// sortFacts puts the facts into the order of their trees' journals. The caller holds the lock.
func (h *Harness) sortFacts() {
	slices.SortStableFunc(h.facts, func(a, b fact) int {
		return cmp.Or(strings.Compare(a.root.String(), b.root.String()), cmp.Compare(a.Seq, b.Seq))
	})
}

// checkCompletions fails if a completion or reply was lost or came twice. It is called when
// everything has come to its end.
func (h *Harness) checkCompletions() {
	h.mu.Lock()
	defer h.mu.Unlock()
	sessions := h.sessionsOf()
	read := h.whoRead(sessions)
	delivered := make(map[string]bool)
	for _, d := range h.deliveries {
		if d.Completion != nil {
			delivered[string(d.Completion.Run.ID)] = true
		}
	}
	undelivered, out, replies := false, 0, 0
	runs := make(map[session.Key]string) // the present ones
	for _, f := range h.facts {
		if f.Kind == "admitted" || f.Kind == "restarted" {
			runs[f.Run] = f.ID
		}
		runID := runs[f.Run]
		if f.Replied {
			replies += max(f.Conversations, 1)
		}
		if f.Updated {
			replies++
		}
		switch {
		case f.Kind == "deferred" || f.Kind == "blocked" || f.Kind == "dismissed":
			undelivered = true
		case f.Out && (f.Told || f.Kind == "posted"):
			out++
		case f.Told && len(read[runID]) == 0 && delivered[runID]:
			// Its requester ended without reading it. It went up to a session of the caller.
			out++
		case f.Told:
			h.checkRead(sessions, read[runID], f.Run)
		}
	}
	for key, s := range sessions {
		switch {
		case s.id == "":
		case s.runs == 1 && s.ends != 1:
			h.t.Errorf("agenttest: the run of %s has ended %d times", key, s.ends)
		case s.ends != s.runs:
			h.t.Errorf("agenttest: of the %d runs of %s, %d have ended", s.runs, key, s.ends)
		}
	}
	if undelivered {
		return
	}
	if replies != len(h.replies) {
		h.t.Errorf("agenttest: replies of turns: %d, arrived: %d", replies, len(h.replies))
	}
	if h.cfg.Deliver != nil && out != len(h.deliveries) {
		h.t.Errorf("agenttest: ends of runs to be delivered: %d, arrived: %d", out,
			len(h.deliveries))
	}
}

func (h *Harness) sessionsOf() map[session.Key]*sessionFacts {
	h.sortFacts()
	sessions := make(map[session.Key]*sessionFacts)
	for _, f := range h.facts {
		if f.Kind == "admitted" {
			sessions[f.Run] = &sessionFacts{
				ref: session.Ref{Key: f.Run, SessionID: f.SessionID}, id: f.ID, parent: f.Parent,
				runs: 1,
			}
			continue
		}
		if f.Kind == "opened" && sessions[f.root] == nil {
			sessions[f.root] = &sessionFacts{ref: session.Ref{Key: f.root, SessionID: f.SessionID}}
		}
		s := sessions[f.Run]
		if s == nil {
			continue
		}
		switch f.Kind {
		case "turn_ended":
			s.committed = max(s.committed, f.Pos)
			s.mayLoseInputs = s.mayLoseInputs || f.Cut
		case "stop_requested":
			s.mayLoseInputs = s.mayLoseInputs || f.Stopped
		case "run_ended":
			s.ends++
		case "restarted":
			s.runs++
		case "reset":
			s.past = s.conversations()
			s.ref.SessionID, s.committed = f.SessionID, 0
		}
	}
	return sessions
}

// whoRead returns in which conversations the end of a run stands, as often as it does.
func (h *Harness) whoRead(sessions map[session.Key]*sessionFacts) map[string][]session.Key {
	read := make(map[string][]session.Key)
	for key, s := range sessions {
		for _, c := range s.conversations() {
			for line, err := range session.Committed(upTo(h.lines[c.ref], c.end)) {
				if m := line.Message; err == nil && m.Internal && !m.Copied &&
					m.Role == session.MessageUser && m.ID != "" {
					read[m.ID] = append(read[m.ID], key)
				}
			}
		}
	}
	return read
}

func upTo(lines []session.Line, end session.Pos) iter.Seq2[session.Line, error] {
	return func(yield func(session.Line, error) bool) {
		for _, line := range lines {
			if line.Pos > end || !yield(line, nil) {
				return
			}
		}
	}
}

// checkRead fails unless the end of a run stands in one conversation once: that of its requester,
// or of one above it.
func (h *Harness) checkRead(
	sessions map[session.Key]*sessionFacts, where []session.Key, run session.Key,
) {
	child := sessions[run]
	if child == nil {
		return
	}
	if len(where) > 1 {
		h.t.Errorf("agenttest: the end of %s was read %d times, by %v", run, len(where), where)
	}
	for k := child.parent; k.IsValid(); {
		up := sessions[k]
		if up == nil || up.mayLoseInputs || len(where) == 1 && where[0] == k {
			return
		}
		if up.id != "" && up.parent.IsValid() {
			k = up.parent
			continue
		}
		break
	}
	if len(where) == 0 {
		h.t.Errorf("agenttest: the end of %s was lost: no session has read it", run)
	} else {
		h.t.Errorf("agenttest: the end of %s was read by %s, which is none of those above it", run,
			where[0])
	}
}

// checkFormer fails unless the conversations before resets are archived, with all of their lines.
// It is called when everything has come to its end.
func (h *Harness) checkFormer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ref := range h.left {
		if h.purged[ref] {
			continue
		}
		read := func(q session.LineQuery) (n int, err error) {
			for _, rerr := range h.store.Transcripts.Read(h.t.Context(), ref, q) {
				n, err = n+1, rerr
			}
			return n, err
		}
		lines := len(h.lines[ref])
		if _, err := read(session.LineQuery{}); lines > 0 && !errors.Is(err, session.ErrArchived) {
			h.t.Errorf("agenttest: session %s of %s is not archived after its reset: %v",
				ref.SessionID, ref.Key, err)
			continue
		}
		if n, err := read(session.LineQuery{Archived: true}); n != lines || err != nil {
			h.t.Errorf("agenttest: session %s of %s had %d lines and has %d in its archive: %v",
				ref.SessionID, ref.Key, lines, n, err)
		}
	}
}

// checkInUse fails if a transcript is in use that no tree has as the present one of a session: what
// is left of a spawn that was refused, of an archive or of a revival. It is called when everything
// has come to its end.
func (h *Harness) checkInUse() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sortFacts()
	refs, archived := make(tracker), make(map[session.Key]bool)
	for _, f := range h.facts {
		refs.note(f)
		if f.Kind == "archived" || f.Kind == "unarchived" {
			archived[f.Run] = f.Kind == "archived"
		}
	}
	for ref := range h.lines {
		if refs[ref.Key] == ref && !archived[ref.Key] {
			continue
		}
		for _, err := range h.store.Transcripts.Read(h.t.Context(), ref, session.LineQuery{}) {
			if err == nil {
				h.t.Errorf("agenttest: the transcript of %s, session %s, is in use, and in no tree",
					ref.Key, ref.SessionID)
			}
			break
		}
	}
}

// checkJournals audits every journal with code that does not fold it.
func (h *Harness) checkJournals() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for root, entries := range h.entries {
		slices.SortStableFunc(entries,
			func(a, b session.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
		if err := spawntest.Audit(yielded(entries)); err != nil {
			h.t.Errorf("agenttest: the journal of %s: %v", root, err)
			return // what follows reads all of them again
		}
	}
	err := spawntest.AuditSent(slices.Collect(maps.Keys(h.entries)),
		func(root session.Key) iter.Seq2[session.Entry, error] { return yielded(h.entries[root]) })
	if err != nil {
		h.t.Errorf("agenttest: what trees write to each other: %v", err)
	}
}

// checkFiles fails unless each file that a line or a fact names is there with its bytes, because a
// writer puts the bytes first, and every file belongs to a session. What was put for a sub-agent
// that was not spawned is removed, as the journal says.
func (h *Harness) checkFiles() {
	h.mu.Lock()
	defer h.mu.Unlock()
	sessions := h.sessionsOf()
	want := make(map[session.Ref][]session.File)
	for ref := range h.filed {
		want[ref] = nil
	}
	for ref, lines := range h.lines {
		for _, line := range lines {
			want[ref] = append(want[ref], spawntest.FilesOf(line.Message)...)
		}
	}
	refs, put := make(tracker), make(map[session.Key]string)
	for _, f := range h.facts {
		if f.Kind == "deposit_begun" || f.Kind == "deposit_dropped" {
			put[f.Run] = f.Kind
		}
		if refs.note(f); len(f.Files) > 0 {
			want[refs[f.Run]] = append(want[refs[f.Run]], f.Files...)
		}
	}
	for ref, files := range want {
		if h.purged[ref] {
			files = nil
		}
		is := func(c conversation) bool { return c.ref == ref }
		s := sessions[ref.Key]
		there := s != nil && slices.ContainsFunc(s.conversations(), is)
		if !there && put[ref.Key] == "deposit_dropped" {
			h.checkDropped(ref)
		}
		if !there && put[ref.Key] == "" {
			h.t.Errorf("agenttest: there are files of %s, session %s, which does not exist",
				ref.Key, ref.SessionID)
		}
		err := spawntest.AuditFiles(h.t.Context(), h.store.Files, ref, files...)
		if err != nil && !errors.Is(err, session.ErrClosed) {
			h.t.Errorf("agenttest: %v", err)
		}
	}
}

// checkDropped fails if a sub-agent that was not spawned has files.
func (h *Harness) checkDropped(ref session.Ref) {
	for f, err := range h.store.Files.List(h.t.Context(), ref) {
		if err == nil {
			h.t.Errorf("agenttest: file %s of %d bytes of %s is left, which was not spawned", f.Hash,
				f.Size, ref.Key)
		}
	}
}

// notePlace remembers where the attachments of a turn are.
func (h *Harness) notePlace(t *agent.Turn) {
	if t.Dir == "" {
		return
	}
	if list, err := fs.ReadDir(t.Files, "."); err == nil && len(list) > 0 {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.places[t.Session.Key] = t.Dir
	}
}

// checkPlaces fails if attachments are in a work directory whose sub-agent is archived. It is
// called when everything has come to its end.
func (h *Harness) checkPlaces() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sortFacts()
	archived := make(map[session.Key]bool)
	for _, f := range h.facts {
		if f.Kind == "archived" || f.Kind == "unarchived" {
			archived[f.Run] = f.Kind == "archived"
		}
	}
	for key, dir := range h.places {
		dir = filepath.Join(dir, filepath.FromSlash(attach.Dir(key.ID())))
		if _, err := os.Lstat(dir); archived[key] && !errors.Is(err, fs.ErrNotExist) {
			h.t.Errorf("agenttest: the attachments of %s, which is archived, are left in %s", key,
				dir)
		}
	}
}

// logJournals logs what the journals hold, so that the reason of a failure can be found.
func (h *Harness) logJournals() {
	for root, entries := range h.entries {
		var b strings.Builder
		for _, e := range entries {
			b.WriteString("\n  " + spawn.Describe(e))
		}
		h.t.Logf("agenttest: the journal of %s:%s", root, b.String())
	}
}
