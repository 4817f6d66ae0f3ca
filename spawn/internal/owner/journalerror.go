package owner

import (
	"errors"
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A JournalError is an entry of a tree's journal that cannot follow those before it. It is
// [session.ErrFormat] if a newer version may have written the entry, else [session.ErrCorrupt].
type JournalError struct {
	Root session.Key // of the tree
	Seq  session.Seq // of the entry
	Err  error       // what is wrong with it
}

func (e *JournalError) Error() string {
	what := "it cannot follow those before it"
	if e.Err != nil {
		what = strings.TrimPrefix(e.Err.Error(), "spawn: ")
	}
	return fmt.Sprintf("spawn: journal of %q, entry %d: %s", e.Root, e.Seq, what)
}

func (e *JournalError) Unwrap() error { return e.Err }

// Is reports whether target is the one of [session.ErrFormat] and [session.ErrCorrupt] that e is.
func (e *JournalError) Is(target error) bool {
	var newer *tree.VersionError
	if errors.As(e.Err, &newer) && newer.Version >= 1 && newer.Kind != "" {
		return target == session.ErrFormat
	}
	return target == session.ErrCorrupt
}
