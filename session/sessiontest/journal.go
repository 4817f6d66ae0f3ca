package sessiontest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// An OpenFunc opens a journal. Every call opens the same logs, as a process that starts again
// would. A journal that is an [io.Closer] is closed before the next call.
type OpenFunc = func() (session.Journal, error)

// TestJournal runs every rule of [session.Journal] in a subtest, which quotes the rule if it fails.
// It calls fresh once for each rule. fresh returns an OpenFunc for a store without logs. In a build
// with the race detector the largest batches have an eighth of session.BatchLimit.
func TestJournal(t *testing.T, fresh func(t *testing.T) OpenFunc) {
	t.Helper()
	runRules(t, journalRules, fresh)
}

type (
	journalRule  = rule[session.Journal]
	journalProbe = probe[session.Journal]
)

// journalRules are the rules of [session.Journal], in the order of their numbers.
var journalRules = []journalRule{
	{
		"empty",
		"The log of a root that has none ends at zero, and Read yields nothing of it.",
		checkEmpty,
	},
	{"order", "Read yields the entries in order, with sequences that grow.", checkOrder},
	{
		"after",
		"Read yields the entries whose sequence is greater than after, wherever in a batch that is.",
		checkAfter,
	},
	{
		"last",
		"Append returns the sequence of the last entry that it added, which is where the log then ends.",
		checkLast,
	},
	{
		"stale",
		"Append adds nothing and returns ErrConflict if the log has gone on beyond after.",
		checkStale,
	},
	{
		"ahead",
		"Append adds nothing and returns ErrConflict if the log does not reach after.",
		checkAhead,
	},
	{
		"one winner",
		"Of 64 goroutines that append after the same sequence, exactly one succeeds; the others get ErrConflict.",
		checkOneWinner,
	},
	{
		"whole batches",
		"Read yields no part of a batch without the rest, also while it is being appended.",
		checkWholeBatches,
	},
	{
		"all or nothing",
		"A batch with a payload that cannot be encoded is refused whole.",
		checkAllOrNothing,
	},
	{"batch id", "Every entry carries the id of the batch that it came in.", checkBatchID},
	{"payload", "A payload is read back as the JSON value that it was.", checkPayload},
	{
		"visible",
		"Once Append has returned, every Read sees the batch, from any goroutine.",
		checkVisible,
	},
	{
		"durable",
		"Once Append has returned, the batch is there when the journal is opened again, and the log goes on from it.",
		checkDurable,
	},
	{
		"lost acknowledgement",
		"A batch is recognised by its id after the journal is opened again.",
		checkLostAck,
	},
	{
		"reset",
		"After a reset, Read starts at the snapshot, whatever it is asked for, and sequences go on growing.",
		checkReset,
	},
	{"reset durable", "A reset is still one when the journal is opened again.", checkResetDurable},
	{"reset conflict", "A reset that conflicts drops nothing.", checkResetConflict},
	{"apart", "Logs are kept apart, however alike their roots are.", checkApart},
	{
		"at once",
		"Logs of different roots can be appended to from many goroutines at once.",
		checkAtOnce,
	},
	{
		"roots",
		"Roots yields every log once, those of reserved roots included, with its last sequence and its due time.",
		checkRoots,
	},
	{"due", "Roots with a DueBefore leaves out no log that is due before it.", checkDue},
	{
		"due moves",
		"The Due of a batch replaces that of the batch before, to earlier as to later.",
		checkDueMoves,
	},
	{
		"due again",
		"A log that was put off, and looked for in between, is found when it becomes due earlier again.",
		checkDueAgain,
	},
	{"due durable", "A log is due as before when the journal is opened again.", checkDueDurable},
	{
		"never due",
		"Roots with a DueBefore does not go through logs that were never due.",
		checkNeverDue,
	},
	{
		"member",
		"Once Append has returned, Roots with a Member finds the log, whichever of its batches names the member.",
		checkMember,
	},
	{
		"member reset",
		"A reset drops no member that it names, and members come after it as before.",
		checkMemberReset,
	},
	{
		"member durable",
		"A log is found by its members when the journal is opened again.",
		checkMemberDurable,
	},
	{
		"other members",
		"Roots with a Member does not go through logs that do not have it.",
		checkOtherMembers,
	},
	{
		"large batch",
		"A batch up to session.BatchLimit is taken, of one large entry as of many small ones.",
		checkLargeBatch,
	},
	{
		"large snapshot",
		"A snapshot up to session.BatchLimit is taken whole, and replaces what was before it.",
		checkLargeSnapshot,
	},
	{
		"too large",
		"A batch above session.BatchLimit is taken whole, or refused with ErrInvalidBatch, and then nothing has changed.",
		checkTooLarge,
	},
	{
		"early stop",
		"A loop over Read or Roots may append, and may end early, and then holds nothing up.",
		checkEarlyStop,
	},
	{
		"invalid",
		"Append refuses a batch without entries or payload, or with the zero key as a member, with ErrInvalidBatch and the zero root with ErrInvalidKey, and adds nothing.",
		checkInvalid,
	},
	{
		"unencodable",
		"Append returns ErrInvalidBatch for a payload that cannot be encoded.",
		checkUnencodable,
	},
	{
		"context",
		"A ctx that is done makes Append add nothing and Read and Roots yield its error, and nothing after it.",
		checkContext,
	},
	{"closed", "After Close, every method returns ErrClosed.", checkClosed},
}

// A fact is the payload that the rules append: a JSON string.
type fact string

func (f fact) AppendJSON(b []byte) ([]byte, error) {
	text, err := json.Marshal(string(f))
	return append(b, text...), err
}

// A badFact is a payload that cannot be encoded.
type badFact struct{}

var errBadFact = errors.New("sessiontest: this payload cannot be encoded")

func (badFact) AppendJSON(b []byte) ([]byte, error) { return b, errBadFact }

var (
	rootA = session.Must(session.MainKey("a"))
	rootB = session.Must(session.MainKey("b"))

	// kitNoon is a time without a fraction of a second, which every format keeps.
	kitNoon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
)

// factBatch returns a batch called id with n facts. Each says the id and its own index.
func factBatch(id string, n int) session.Batch {
	b := session.Batch{ID: session.BatchID(id)}
	for i := range n {
		b.Entries = append(b.Entries, session.Entry{Payload: fact(fmt.Sprintf("%s/%d", id, i))})
	}
	return b
}

// dueAt returns b with the given Due.
func dueAt(b session.Batch, due time.Time) session.Batch {
	b.Due = due
	return b
}

// asReset returns b as a reset.
func asReset(b session.Batch) session.Batch {
	b.Reset = true
	return b
}

// appendBatch appends b to a log and returns its end. The rule fails if Append does.
func appendBatch(
	p *journalProbe, j session.Journal, root session.Key, after session.Seq, b session.Batch,
) session.Seq {
	last, err := j.Append(p.ctx, root, after, b)
	p.must(fmt.Sprintf("append %q to %q after %d", b.ID, root, after), err)
	return last
}

// readEntries returns the entries after a sequence, or those before the first error and that error.
func readEntries(
	ctx context.Context, j session.Journal, root session.Key, after session.Seq,
) ([]session.Entry, error) {
	var entries []session.Entry
	for e, err := range j.Read(ctx, root, after) {
		if err != nil {
			return entries, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// entriesOf returns the entries after a sequence. The rule fails if Read does.
func entriesOf(
	p *journalProbe, j session.Journal, root session.Key, after session.Seq,
) []session.Entry {
	entries, err := readEntries(p.ctx, j, root, after)
	p.must(fmt.Sprintf("read %q after %d", root, after), err)
	return entries
}

// textOf returns the string that the payload of e is, or the JSON text of another payload.
func textOf(e session.Entry) string {
	if e.Payload == nil {
		return "no payload"
	}
	data, err := e.Payload.AppendJSON(nil)
	if err != nil {
		return err.Error()
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return string(data)
	}
	return s
}

// wantFacts fails the rule unless the log of root has exactly the wanted facts after a sequence.
func wantFacts(
	p *journalProbe, j session.Journal, root session.Key, after session.Seq, want ...string,
) {
	var got []string
	for _, e := range entriesOf(p, j, root, after) {
		got = append(got, textOf(e))
	}
	if !slices.Equal(got, want) {
		p.fail("read %q after %d: got %q, want %q", root, after, got, want)
	}
}

// factTexts returns the facts of factBatch(id, n).
func factTexts(id string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s/%d", id, i))
	}
	return all
}
