package agent

import (
	"context"
	"errors"
	"log/slog"

	"github.com/offshoot-sdk/offshoot/session"
)

// mend has the store put the damaged lines of a transcript aside, and logs that. A store that
// cannot do that returns the error of the damage again. The error tells the file, which may have
// been put aside as a whole afterwards.
func mend(
	ctx context.Context, store session.Transcripts, log *slog.Logger, ref session.Ref, damage error,
) {
	m, ok := store.(session.Mender)
	if !ok {
		return
	}
	path := store.Locate(ref)
	if c, ok := errors.AsType[*session.CorruptError](damage); ok && c.File != "" {
		path = c.File
	}
	done, err := m.Mend(ctx, ref)
	if err != nil {
		log.Error("offshoot: a damaged transcript cannot be mended", "session", ref.Key.String(),
			"transcript", path, "error", err.Error())
	}
	if len(done.Aside) > 0 {
		what := "offshoot: damaged lines of a transcript were put aside"
		if store.Locate(ref) != path {
			what = "offshoot: a damaged transcript was put aside as a whole"
		}
		log.Error(what, "session", ref.Key.String(), "transcript", path,
			"bytes", done.Bytes, "aside", done.Aside)
	}
}
