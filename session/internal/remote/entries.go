package remote

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/offshoot-sdk/offshoot/session"
)

var errEmptyPayload = errors.New("remote: the payload is not JSON: it is empty")

// AppendEntries appends the entries of a batch to b, one a line and without a line break at the
// end. If b has more than limit bytes then, over is how many of the entries, from the first, exceed
// it, and the others are not encoded. The error is [session.ErrInvalidBatch].
func AppendEntries(b []byte, batch session.Batch, limit int) (_ []byte, over int, err error) {
	for i := range batch.Entries {
		if i > 0 {
			b = append(b, '\n')
		}
		begin := len(b)
		b, err = batch.Entries[i].Payload.AppendJSON(b)
		if err == nil && bytes.IndexByte(b[begin:], '\n') >= 0 {
			line := bytes.Clone(b[begin:])
			b, err = session.Raw(line).AppendJSON(b[:begin])
		}
		if err == nil && len(b) == begin {
			err = errEmptyPayload
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%w %q: entry %d of %d: %w",
				session.ErrInvalidBatch, batch.ID, i, len(batch.Entries), err)
		}
		if len(b) > limit {
			return b, i + 1, nil
		}
	}
	return b, 0, nil
}
