package tree

import (
	"fmt"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// A SkillSet is what a session keeps of the skills that it has taken: enough to list the same ones
// in every later turn, and to tell that one has changed since. It is not changed once it is made.
type SkillSet struct {
	// Version tells one set from another.
	Version string `json:"version,omitempty"`
	// Skills are in the order of the caller.
	Skills []SkillRef `json:"list,omitempty"`
}

// A SkillRef names one skill of a [SkillSet].
type SkillRef struct {
	Name string `json:"name"`
	// Digest is of what the skill said when it was taken.
	Digest string `json:"digest,omitempty"`
}

const (
	// MaxSkills is how many skills a [SkillSet] has at most.
	MaxSkills = 1000
	// maxSkillText is how many bytes a name, a digest or a version has at most.
	maxSkillText = 1000
)

// Check returns an *InputError for a set that is too large, or that the journal could not keep as
// it is.
func (s *SkillSet) Check() error {
	if n := len(s.Skills); n > MaxSkills {
		return &InputError{"skills", fmt.Sprintf("there are %d, the limit is %d", n, MaxSkills)}
	}
	if err := checkSkillText("skills.version", s.Version); err != nil {
		return err
	}
	for _, k := range s.Skills {
		if err := checkSkillText("skills.name", k.Name); err != nil {
			return err
		}
		if err := checkSkillText("skills.digest", k.Digest); err != nil {
			return err
		}
	}
	return nil
}

func checkSkillText(field, value string) error {
	switch {
	case len(value) > maxSkillText:
		reason := fmt.Sprintf("it has %d bytes, the limit is %d", len(value), maxSkillText)
		return &InputError{field, reason}
	case !utf8.ValidString(value):
		return &InputError{field, "it is not UTF-8: " + text.Quote(value)}
	}
	return nil
}

// bytes returns how many bytes the texts of a set take; 0 for nil.
func (s *SkillSet) bytes() (n int) {
	if s == nil {
		return 0
	}
	n = len(s.Version)
	for _, k := range s.Skills {
		n += len(k.Name) + len(k.Digest)
	}
	return n
}

// decideKeepSkills records the skills that a session has taken. A session keeps the first ones.
func (t *Tree) decideKeepSkills(c KeepSkills) (Reply, error) {
	r, err := t.runInTurn(c.Run, c.N)
	if err != nil {
		return Reply{}, err
	}
	if r.Skills != nil {
		return Reply{Run: r, Ref: c.Run, Existing: true}, nil
	}
	if err := c.Skills.Check(); err != nil {
		return Reply{}, err
	}
	t.emit(skillsTaken(t.now, r, c.Skills))
	return Reply{Run: r, Ref: c.Run}, nil
}
