package target

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// The words that are not names.
const (
	wordLast = "last"
	wordAll  = "all"
	wordStar = "*"
)

const (
	minIDPrefix   = 4  // characters of the beginning of a run id that name it
	minDigits     = 8  // characters, if they are digits alone and so read like a number
	maxCandidates = 10 // that a FindError tells of

	maxCalled = 400 // bytes of a task that stand for a label
)

// MaxTarget is how many bytes of a target the caller of Find keeps of a FindError.
const MaxTarget = 512

// A Search is what a target is looked for in.
type Search struct {
	// Runs are the present runs of the sub-agents, in the order in which their sessions were
	// spawned.
	Runs []spawn.RunInfo
	// List are the runs that numbers stand for, from 1.
	List []spawn.RunRef
	// Many has "all" and "*" stand for all Runs. Otherwise a target that is one of them is a
	// FindError.
	Many bool
	// Earlier looks for a run that others of its session have followed, or that is not among the
	// Runs. Its error is spawn.ErrNotFound if that run is not on record.
	Earlier func(spawn.RunRef) (spawn.RunInfo, error)
	// Mask masks a label that a FindError tells of, before that is cut. Nil: it stays as it is.
	Mask func(string) string
}

// A FindError says why a target does not name what was to be found.
type FindError struct {
	Target     string
	Reason     string          // one line, without the target
	Candidates []spawn.RunInfo // what it may mean, if that are several
}

func (f *FindError) Error() string { return "target " + text.Quote(f.Target) + ": " + f.Reason }

// Find returns what a target names: one run, or several with Many. The error is a *FindError, or
// one of Earlier.
func (s *Search) Find(target string) ([]spawn.RunInfo, error) {
	target = text.Line(target) // what cannot be seen does not make it another one
	switch {
	case target == "":
		return nil, s.fault(target, "it is empty: name a sub-agent by its number, run id, label, "+
			"taskName or session key")
	case strings.EqualFold(target, wordAll), target == wordStar:
		if s.Many {
			return s.Runs, nil
		}
		return nil, s.fault(target, "it is all of them: name one sub-agent")
	case strings.EqualFold(target, wordLast):
		return s.last()
	}
	if n, ok := listNumber(target); ok {
		return s.numbered(target, n)
	}
	return s.named(target)
}

// listNumber returns the number that a target is, written as a list or a person writes it.
func listNumber(target string) (n int, ok bool) {
	target = strings.TrimPrefix(target, "#")
	n, err := strconv.Atoi(target)
	return n, err == nil && strconv.Itoa(n) == target
}

func (s *Search) last() ([]spawn.RunInfo, error) {
	runs := append([]spawn.RunInfo{}, s.Runs...)
	newestFirst(runs)
	if len(runs) == 0 {
		return nil, s.fault(wordLast, "there are no sub-agents of this session")
	}
	return runs[:1], nil
}

// numbered returns the run with a number, the one whose id begins with the same digits, or the one
// that is called by them.
func (s *Search) numbered(target string, n int) ([]spawn.RunInfo, error) {
	if n >= 1 && n <= len(s.List) {
		return s.listed(target, s.List[n-1])
	}
	if len(target) >= minDigits {
		found := s.all(func(r *spawn.RunInfo) bool {
			return strings.HasPrefix(string(r.ID), target)
		})
		if len(found) > 0 {
			return s.one(target, found)
		}
	}
	if found := s.exactly(target); len(found) > 0 {
		return s.one(target, found)
	}
	return nil, s.fault(target, "it is not a number of the list, which has "+
		text.Count(len(s.List), "sub-agent", "sub-agents"))
}

// listed returns the run that has a number, whatever has followed it.
func (s *Search) listed(target string, ref spawn.RunRef) ([]spawn.RunInfo, error) {
	for i := range s.Runs {
		if s.Runs[i].Ref() == ref {
			return s.Runs[i : i+1 : i+1], nil
		}
	}
	run, err := s.Earlier(ref)
	if errors.Is(err, spawn.ErrNotFound) {
		return nil, s.fault(target, fmt.Sprintf("that number was run %s of %s, which is not on "+
			"record any more; look at the list again", ref.Run, ref.Session))
	}
	return []spawn.RunInfo{run}, err
}

func (s *Search) named(target string) ([]spawn.RunInfo, error) {
	if _, err := session.Parse(target); err == nil {
		return s.one(target, s.all(func(r *spawn.RunInfo) bool { return r.Key.String() == target }))
	}
	if found := s.exactly(target); len(found) > 0 {
		return s.one(target, found)
	}
	if run, err := s.earlier(target); err != nil || run.ID != "" {
		return []spawn.RunInfo{run}, err
	}
	for _, is := range []func(r *spawn.RunInfo) bool{
		func(r *spawn.RunInfo) bool { return r.SessionID == target },
		func(r *spawn.RunInfo) bool {
			return hasPrefixFold(r.Name, target) || hasPrefixFold(calledAs(r), target)
		},
		func(r *spawn.RunInfo) bool {
			return len(target) >= minIDPrefix && strings.HasPrefix(string(r.ID), target)
		},
	} {
		if found := s.all(is); len(found) > 0 {
			return s.one(target, found)
		}
	}
	return s.one(target, nil)
}

// exactly returns the runs that have target as their id, else as their name, else as their label.
func (s *Search) exactly(target string) []spawn.RunInfo {
	for _, is := range []func(r *spawn.RunInfo) bool{
		func(r *spawn.RunInfo) bool { return string(r.ID) == target },
		func(r *spawn.RunInfo) bool { return r.Name != "" && strings.EqualFold(r.Name, target) },
		func(r *spawn.RunInfo) bool { return strings.EqualFold(text.Line(r.Label), target) },
		func(r *spawn.RunInfo) bool { return strings.EqualFold(s.shownLabel(r), target) },
	} {
		if found := s.all(is); len(found) > 0 {
			return found
		}
	}
	return nil
}

// shownLabel returns what lists call a run: the beginning of its label, or of its task if it has
// none. What is masked of it is masked before it is cut.
func (s *Search) shownLabel(r *spawn.RunInfo) string {
	if s.Mask == nil {
		return text.Label(calledAs(r))
	}
	return text.Label(text.Line(secret.Head(s.Mask, Called(r), maxCalled)))
}

// Called returns what lists call a run, whole: what shows it to people is masked before it is cut.
func Called(r *spawn.RunInfo) string { return cmp.Or(r.Label, r.Task) }

// calledAs returns the label of a run, or the beginning of its task if it has none.
func calledAs(r *spawn.RunInfo) string {
	return text.Line(cmp.Or(r.Label, text.Cut(r.Task, maxCalled)))
}

// earlier returns the run with an id that others of its session have followed; the zero RunInfo for
// none.
func (s *Search) earlier(id string) (spawn.RunInfo, error) {
	for i := range s.Runs {
		r := &s.Runs[i]
		if !r.FollowUp || len(id) != len(r.ID) {
			continue
		}
		run, err := s.Earlier(spawn.RunRef{Session: r.Key, Run: spawn.RunID(id)})
		if !errors.Is(err, spawn.ErrNotFound) {
			return run, err
		}
	}
	return spawn.RunInfo{}, nil
}

func (s *Search) all(is func(r *spawn.RunInfo) bool) (found []spawn.RunInfo) {
	for i := range s.Runs {
		if is(&s.Runs[i]) {
			found = append(found, s.Runs[i])
		}
	}
	return found
}

// one returns what was found if that is one run.
func (s *Search) one(target string, found []spawn.RunInfo) ([]spawn.RunInfo, error) {
	switch len(found) {
	case 0:
		return nil, s.fault(target, "it names none of this session's sub-agents")
	case 1:
		return found, nil
	}
	f := s.fault(target, "")
	f.Candidates = found
	said := make([]string, 0, maxCandidates)
	for i := range found[:min(len(found), maxCandidates)] {
		said = append(said, s.describe(&found[i]))
	}
	f.Reason = fmt.Sprintf("it may be any of %d: %s", len(found), strings.Join(said, "; "))
	if more := len(found) - len(said); more > 0 {
		f.Reason += fmt.Sprintf("; and %d more", more)
	}
	f.Reason += ": name one by its number or its run id"
	return nil, f
}

// describe returns what tells a candidate from others.
func (s *Search) describe(r *spawn.RunInfo) string {
	said := "run " + string(r.ID)
	for i, ref := range s.List {
		if ref == r.Ref() {
			said = fmt.Sprintf("#%d, %s", i+1, said)
		}
	}
	if r.Name != "" {
		said += ", taskName " + r.Name
	}
	if label := s.shownLabel(r); label != "" {
		said += ", " + text.Quote(label)
	}
	return said + ", " + r.Status.String()
}

func (*Search) fault(target, reason string) *FindError {
	return &FindError{Target: target, Reason: reason}
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
