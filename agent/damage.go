package agent

import (
	"context"
	"log/slog"

	"github.com/offshoot-sdk/offshoot/session"
)

// mend has the store put the damaged lines of a transcript aside, and logs that. A store that
// cannot do that returns the error of the damage again.
func mend(
	ctx context.Context, store session.Transcripts, log *slog.Logger, ref session.Ref,
) {
	m, ok := store.(session.Mender)
	if !ok {
		return
	}
	done, err := m.Mend(ctx, ref)
	if err != nil {
		log.Error("offshoot: a damaged transcript cannot be mended", "session", ref.Key.String(),
			"error", err.Error())
	}
	if len(done.Aside) > 0 {
		log.Error("offshoot: damaged lines of a transcript were put aside",
			"session", ref.Key.String(), "transcript", store.Locate(ref),
			"bytes", done.Bytes, "aside", done.Aside)
	}
}
