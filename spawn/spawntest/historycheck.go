package spawntest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// historiesEnv is what the environment says of histories.
type historiesEnv struct {
	n    int    // how many; zero: it does not say
	seed uint64 // of the one that is played, if same is set
	same bool
}

// readHistoriesEnv reads what the environment says of histories.
func readHistoriesEnv(get func(string) string) (e historiesEnv, err error) {
	if s := get("OFFSHOOT_FUZZ"); s != "" {
		if e.n, err = strconv.Atoi(s); err != nil || e.n < 1 {
			return e, fmt.Errorf("spawntest: OFFSHOOT_FUZZ is %q, want how many histories are "+
				"played, from 1", s)
		}
	}
	if s := get("OFFSHOOT_SEED"); s != "" {
		if e.seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			return e, fmt.Errorf("spawntest: OFFSHOOT_SEED is %q, want the seed of a history, "+
				"a number from 0 to 18446744073709551615", s)
		}
		e.same = true
	}
	return e, nil
}

// check returns what is wrong with a field that the caller has set.
func (hs *Histories) check() error {
	if hs.New == nil {
		return fmt.Errorf("spawntest: Histories.New is nil: it makes the program of a history")
	}
	for _, f := range [...]struct {
		name  string
		value int
	}{
		{"N", hs.N},
		{"Lives", hs.Lives},
		{"Callers", hs.Callers},
		{"Acts", hs.Acts},
		{"Outage", hs.Outage},
	} {
		if f.value < 0 {
			return fmt.Errorf("spawntest: Histories.%s is %d, want a number from 1, or 0 for the "+
				"default", f.name, f.value)
		}
	}
	if hs.Rest < 0 {
		return fmt.Errorf("spawntest: Histories.Rest is %v, want a time, or 0 for %v", hs.Rest,
			24*time.Hour)
	}
	for i, f := range hs.Faults {
		if f == 0 || f.dies() || f > FaultExitAfter {
			return fmt.Errorf("spawntest: Histories.Faults[%d] is %q, not one to live on with", i, f)
		}
	}
	return nil
}

// check returns what is wrong with a field of the program.
func (p *Program) check() error {
	switch {
	case p.Open == nil:
		return fmt.Errorf("spawntest: Program.Open is nil: it starts a process")
	case len(p.Commands) == 0:
		return fmt.Errorf("spawntest: Program.Commands is empty, so that no caller does anything")
	case p.Store != nil && (p.Store.Journal == nil || p.Store.Transcripts == nil):
		return fmt.Errorf("spawntest: Program.Store lacks its Journal or its Transcripts")
	}
	seen := make(map[string]bool)
	for i, c := range p.Commands {
		at := fmt.Sprintf("Program.Commands[%d].", i)
		if err := checkStepName(at+"Name", c.Name, seen); err != nil {
			return err
		}
		switch {
		case c.Weight < 0:
			return fmt.Errorf("spawntest: %sWeight is %d, want a number from 1, or 0 for 1", at,
				c.Weight)
		case c.Span < 0:
			return fmt.Errorf("spawntest: %sSpan is %d, want a number from 1, or 0 for 10", at,
				c.Span)
		case c.Do == nil:
			return fmt.Errorf("spawntest: %sDo of %q is nil", at, c.Name)
		}
	}
	clear(seen)
	for i, site := range p.Sites {
		at := fmt.Sprintf("Program.Sites[%d]", i)
		if site == siteAppend || site == stepEnd {
			return fmt.Errorf("spawntest: %s is %q, which is a word of the kit's own", at, site)
		}
		if err := checkStepName(at, site, seen); err != nil {
			return err
		}
	}
	return nil
}

// checkStepName returns why a name cannot stand in the lines of a history, or was seen before.
func checkStepName(field, name string, seen map[string]bool) error {
	if name == "" || !utf8.ValidString(name) || strings.HasSuffix(name, ":") ||
		strings.ContainsFunc(name, func(r rune) bool {
			return unicode.IsSpace(r) || !unicode.IsGraphic(r)
		}) {
		return fmt.Errorf("spawntest: %s is %q, want a word without white space that does not end "+
			"with a colon", field, name)
	}
	if seen[name] {
		return fmt.Errorf("spawntest: %s is %q, as another one is", field, name)
	}
	seen[name] = true
	return nil
}

// check returns why a plan is not one of a program.
func (p *historyPlan) check(program *Program) error {
	for _, s := range p.steps {
		bad := func(format string, args ...any) error {
			return fmt.Errorf("spawntest: the line %q of Histories.Replay: %s", s,
				fmt.Sprintf(format, args...))
		}
		named := func(c Command) bool { return c.Name == s.name }
		isEnd := s.caller == 0 && s.fault == 0
		switch {
		case s.life < 1 || s.life > p.lives:
			return bad("there are %d lives", p.lives)
		case s.caller < 0:
			return bad("callers are counted from 1")
		case s.after < 0:
			return bad("the time is negative")
		case s.caller > 0 && !slices.ContainsFunc(program.Commands, named):
			return bad("the program has not that command")
		case s.caller > 0 && s.n < 0:
			return bad("numbers begin with 0")
		case s.caller > 0 || isEnd:
		case s.name != siteAppend && !slices.Contains(program.Sites, s.name):
			return bad("%q is not in Program.Sites", s.name)
		case s.n < 1 || s.times < 1:
			return bad("calls are counted from 1")
		}
	}
	return nil
}
