package tree

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// String returns a fact as one line for people. It tells times relative to At and shortens long
// texts. What a model or a person has chosen is quoted unless it is a plain word, so that it cannot
// look like a part of the line or like another one.
func (f *Fact) String() string {
	var l factLine
	switch f.Kind {
	case Opened:
		l.add("opened: epoch %d by %s", f.Num, word(f.Text))
	case Admitted:
		l.admitted(f.Spec)
	case Posted:
		l.posted(f)
	case TurnStarted:
		l.turnStarted(f)
	case Taken:
		l.add("turn %d of %s took inputs up to %d", f.N, f.Run, f.Ord)
	case TurnEnded:
		l.turnEnded(f)
	case TurnCancelled:
		l.add("turn %d of %s cancelled", f.N, f.Run)
		l.after(f, "given up")
	case StopRequested:
		l.add("%s is to end: %v, %s", f.Run, f.Cause, quoteShort(f.Text))
		l.addIf(f.Flags&FlagQuiet != 0, "quietly")
		l.after(f, "given up")
	case RunEnded:
		l.runEnded(f)
	case Recovered, Archived:
		l.add("%s %v", f.Run, f.Kind)
	case Delivered, Deferred, Blocked, Revived, Dismissed, Redirected:
		l.add("entry %d %v", f.Ord, f.Kind)
		l.after(f, "due")
		l.addIf(f.Kind == Deferred && f.N&DeferredBusy != 0, "busy")
		l.addIf(f.Kind == Deferred && f.N&DeferredAsked != 0, "as asked")
		l.addIf(f.Kind == Blocked && f.N > 0, "not tried")
		l.addIf(f.Text != "", "%s", quoteShort(f.Text))
	case Late:
		l.add("turn %d of %s came late: %s", f.N, f.Run, quoteShort(f.Text))
	case Reserved:
		l.add("turn %d of %s", f.N, f.Run)
		l.budget("reserves", f.Budget())
	case Snapshot:
		l.add("snapshot")
		if m := f.Image(); m != nil {
			l.add("epoch %d", m.Epoch)
			l.add("%s", text.Count(len(m.Runs), "session", "sessions"))
			l.add("%s in the outbox", text.Count(len(m.Outbox), "entry", "entries"))
		}
	case SkillsTaken:
		l.skillsTaken(f)
	case SetAside:
		l.add("inputs of %s up to %d start no turn", f.Run, f.Ord)
	case Said:
		l.said(f)
	case Reported:
		l.reported(f)
	case Kept:
		l.add("turn %d of %s has it keep %s", f.N, f.Run,
			text.Count(len(f.Text), "byte", "bytes"))
	case Heard:
		l.add("turn %d of %s reads what another session says", f.N, f.Run)
	case RouteSet:
		l.add("%s answers to %s", f.Run, wordsOf(f.Route))
	case Reset:
		l.add("%s goes on in a new conversation, %s after %s", f.Run, word(f.ID()), word(f.Text))
	case PutAway:
		l.add("%s put its conversation %s away", f.Run, word(f.ID()))
	case Unsent:
		l.add("entry %d was not sent", f.Ord)
	case ShuttingDown:
		l.add("turn %d of %s is interrupted by a shutdown", f.N, f.Run)
	case Repaired:
		l.add("the journal was repaired: epoch %d, mark %s", f.Num, word(f.ID()))
	case ClockSetBack:
		l.add("the clock was set back")
		l.addIf(f.Num > 0, "by %s", time.Duration(f.Num))
	default:
		l.later(f)
	}
	return text.Escape(l.b.String())
}

// later adds what is told of a session after its first run.
func (l *factLine) later(f *Fact) {
	switch f.Kind {
	case Restarted:
		l.add("%s begins run %s over input %d", f.Run, word(f.Begin().ID), f.Ord)
		l.addIf(f.ID() != "", "message %s", word(f.ID()))
		l.add("%s", quoteShort(f.Text))
		l.addIf(f.sender().IsValid(), "from %s", f.From())
		l.addIf(f.Begin().Thread, "from a bound conversation")
		l.addIf(f.Begin().Announce, "announced")
	case Bound:
		l.add("%s is bound to %s", f.Run, wordsOf(f.Route))
	case Unbound:
		l.add("%s is no longer bound to %s: %s", f.Run, wordsOf(f.Route), word(f.Text))
	case ArchiveBegun:
		l.add("%s is being archived", f.Run)
	case ReviveBegun:
		l.add("%s is being brought back from the archive", f.Run)
	case Unarchived:
		l.add("%s is back from the archive", f.Run)
	case Discarded:
		l.add("%s is to be archived", f.Run)
	case DepositBegun:
		l.add("files are put for %s, which %s is to spawn", f.Run, f.From())
	case DepositDropped:
		l.add("the files of %s are removed, which was not spawned", f.Run)
	case Sent:
		l.sent(f)
	case AnnounceSet:
		l.add("the end of run %s of %s is to be announced", word(f.ID()), f.Run)
	default:
		l.add("%v", f.Kind)
	}
}

// factLine builds a line from parts that it separates with commas.
type factLine struct{ b strings.Builder }

// add adds a part.
func (l *factLine) add(format string, args ...any) {
	if l.b.Len() > 0 {
		l.b.WriteString(", ")
	}
	fmt.Fprintf(&l.b, format, args...)
}

// addIf adds a part if cond is true.
func (l *factLine) addIf(cond bool, format string, args ...any) {
	if cond {
		l.add(format, args...)
	}
}

// after adds what will happen at f.Until, with the time from f.At until then.
func (l *factLine) after(f *Fact, what string) {
	l.addIf(f.Until > 0, "%s in %s", what, time.Duration(f.Until-f.At))
}

// budget adds the tokens and the dollars of b, but not its turns.
func (l *factLine) budget(what string, b Budget) {
	l.addIf(b.Tokens != 0, "%s %s", what, text.Count(b.Tokens, "token", "tokens"))
	if b.Micros != 0 {
		dollars := strconv.FormatFloat(float64(b.Micros)/1e6, 'f', -1, 64)
		l.add("%s %s dollars", what, dollars)
	}
}

func (l *factLine) runEnded(f *Fact) {
	l.add("%s ended %v", f.Run, f.State)
	switch {
	case f.N > 0:
		l.add("people are told")
	case f.Flags&FlagTell == 0:
		l.add("its requester is not told")
	case f.Flags&FlagOut != 0:
		l.add("told through the outbox")
	default:
		l.add("its requester is told")
	}
	l.addIf(f.Flags&FlagHook != 0, "and a hook is")
	if f.Answer != nil {
		l.add("%s is said to people who wait for an answer", quoteShort(f.Answer.Reply))
		l.addIf(f.Ord > 0, "in %s", text.Count(int(f.Ord), "conversation", "conversations"))
	}
}

func (l *factLine) said(f *Fact) {
	l.add("turn %d of %s said %s", f.N, f.Run, quoteShort(f.Answer.Reply))
	l.addIf(f.ID() != "", "as %s", word(f.ID()))
	l.addIf(f.ID() == "", "number %d", f.Ord)
	l.addIf(f.Flags&FlagReply != 0, "to people")
	l.addIf(f.Elsewhere, "leaves what was asked elsewhere")
}

func (l *factLine) skillsTaken(f *Fact) {
	l.add("turn %d of %s took %s", f.N, f.Run,
		text.Count(len(f.Skills().Skills), "skill", "skills"))
	l.addIf(f.Skills().Version != "", "version %s", word(f.Skills().Version))
}

func (l *factLine) reported(f *Fact) {
	l.add("milestone %d of %s in turn %d: %s", f.Ord, f.Run, f.N, quoteShort(f.Text))
	l.addIf(f.Num > 0, "%d percent", f.Num)
	l.addIf(f.Flags&FlagTell != 0, "its requester finds it")
}

func (l *factLine) sent(f *Fact) {
	l.add("%s writes to %s: %s", f.Run, f.From(), quoteShort(f.Text))
	l.addIf(f.N > 0, "in turn %d", f.N)
	l.add("id %s", word(f.ID()))
}

func (l *factLine) posted(f *Fact) {
	if f.Flags&FlagOut != 0 {
		l.add("an event leaves %s: %s", f.Run, quoteShort(f.Text))
	} else {
		l.add("posted to %s: %v input %d %s", f.Run, f.Class, f.Ord, quoteShort(f.Text))
	}
	l.addIf(f.ID() != "", "id %s", word(f.ID()))
	l.addIf(f.Flags&FlagThread != 0, "of a bound conversation")
	l.addIf(f.Flags&FlagRepair != 0, "to answer again")
	l.addIf(f.sender().IsValid(), "from %s", f.From())
	m := f.Mail()
	if m == nil {
		return
	}
	l.addIf(m.Sender.ID != "", "by %s", word(m.Sender.ID))
	l.addIf(m.Sender.Name != "", "named %s", word(m.Sender.Name))
	for _, p := range m.Parts {
		l.add("with %s %s", word(string(p.Kind)), word(cmp.Or(p.Name, p.File.Hash, p.URL)))
	}
	l.addIf(len(m.Meta) > 0, "%s of its program", text.Count(len(m.Meta), "note", "notes"))
}

// wordsOf returns a route, which may be nil, for a line.
func wordsOf(r *session.Route) string {
	if r == nil {
		return "no conversation"
	}
	var parts []string
	for _, part := range []string{r.Channel, r.Account, r.To, r.Thread} {
		if part != "" {
			parts = append(parts, word(part))
		}
	}
	return strings.Join(parts, " ")
}

func (l *factLine) admitted(s *Spec) {
	l.add("admitted %s: %s for %s", s.Key, quoteShort(s.Task), s.Parent)
	fmt.Fprintf(&l.b, " as %v of %s", s.Role, word(s.Agent))
	l.addIf(s.SpawnKey() != "", "key %s", word(s.SpawnKey()))
	l.addIf(s.Name() != "", "named %s", word(s.Name()))
	l.addIf(s.Model != "", "model %s", word(s.Model))
	tools := make([]string, len(s.Tools))
	for i, name := range s.Tools {
		tools[i] = word(name)
	}
	l.addIf(len(tools) > 0, "tools %s", strings.Join(tools, " "))
	l.addIf(s.Sandboxed, "in a sandbox")
	l.addIf(s.Timeout > 0, "timeout %s", time.Duration(s.Timeout))
	l.addIf(s.Announce, "announced")
	l.addIf(s.Update, "people are told of its end")
	l.addIf(s.Milestones, "milestones")
	l.addIf(s.Session, "as a session")
	l.addIf(s.Delete, "archived at once")
	l.addIf(s.Step, "announced in a turn")
}

func (l *factLine) turnStarted(f *Fact) {
	l.add("turn %d of %s started: inputs up to %d", f.N, f.Run, f.Ord)
	l.addIf(f.Flags&FlagCompact != 0, "to compact")
	l.addIf(f.Flags&FlagStep != 0, "to announce")
	l.after(f, "out of time")
	l.budget("reserves", Budget{f.Budget().Tokens, f.Budget().Micros, 0})
}

func (l *factLine) turnEnded(f *Fact) {
	l.add("turn %d of %s ended %v", f.N, f.Run, f.State)
	l.addIf(f.Flags&FlagStep != 0, "to announce")
	if f.Flags&FlagCompact != 0 && f.Ord == 0 {
		l.add("nothing was compacted")
	} else if f.Flags&FlagCompact != 0 {
		l.add("%s compacted", text.Count(int(f.Ord), "message", "messages"))
	}
	l.addIf(f.Flags&FlagCut != 0, "given up")
	l.addIf(f.Flags&FlagCut != 0 && f.Num > 0, "its transcript counts up to %d", f.Num)
	l.addIf(f.Flags&FlagAside != 0, "inputs after %d are not read and start no turn", f.Ord)
	l.addIf(f.Flags&FlagCrashed != 0, "its process is gone")
	l.addIf(f.Flags&FlagUntouched != 0, "a shutdown came before it did anything")
	l.addIf(f.Flags&FlagGivenUp != 0, "inputs up to %d are given up", f.Ord)
	if f.Answer != nil {
		l.add("%s", quoteShort(f.Answer.Text))
		u := f.Answer.Usage
		l.addIf(u != Usage{}, "used %s", text.Count(u.Input+u.Output, "token", "tokens"))
	}
	l.addIf(f.Flags&FlagSilent != 0, "silent")
	l.addIf(f.Flags&FlagSkip != 0, "takes back what it said before")
	l.addIf(f.Flags&FlagReply != 0, "replies")
	l.addIf(f.Elsewhere, "leaves what was asked elsewhere")
	if a := f.Answer; a != nil {
		l.addIf(!a.Whole().IsZero(), "of %s in a file",
			text.Count(a.Whole().Size, "byte", "bytes"))
		l.addIf(!a.WholeJSON().IsZero(), "JSON of %s in a file",
			text.Count(a.WholeJSON().Size, "byte", "bytes"))
		l.addIf(a.ReplyTo != "", "to %s", quoteShort(a.ReplyTo))
		l.addIf(a.Voice, "spoken")
		l.addIf(a.Refused() != "", "refused: %s", quoteShort(a.Refused()))
	}
	if j := f.Join(); j != nil {
		l.add("waits for %s", text.Count(j.Left, "child", "children"))
		l.addIf(j.Need > 0, "%d well", j.Need)
		l.after(&Fact{At: f.At, Until: j.Until}, "at most")
		l.addIf(j.Rest == RestStop, "then stops the rest")
		l.addIf(j.Rest == RestAnnounce, "then has the rest announced")
	}
}

// word returns a text that is a plain word as it is, and any other one in quotation marks.
func word[T ~string](s T) string { return text.Word(string(s)) }

// maxQuotedRunes is how many runes of a text are shown.
const maxQuotedRunes = 60

// quoteShort quotes the first maxQuotedRunes runes of a text.
func quoteShort(t Text) string {
	s := string(t)
	if utf8.RuneCountInString(s) > maxQuotedRunes {
		s = string([]rune(s)[:maxQuotedRunes]) + "..."
	}
	return strconv.Quote(s)
}
