package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// MaxPart is how many bytes of one file [ReadPart] reads.
const MaxPart = 20 << 20

// A Content is a Part as it is sent to a provider.
type Content struct {
	MediaType string // without parameters, in lower case; empty if only the URL is known
	Name      string
	Data      []byte
	URL       string // where the bytes are, in the place of Data
	// Note is what the model is told in the place of the file, if that cannot be sent: there is
	// neither Data nor a URL then.
	Note string
}

// ReadPart returns a Part of one of the Messages of a request as it is sent to a provider that
// takes files of some types, such as "image/png". The address of a picture is sent as it is, that
// of another file is not.
//
// A file that is gone, damaged, larger than [MaxPart] or of another type costs no call: the Content
// has a Note. The error is that of ctx, or one of the Store, which is Retryable.
func ReadPart(
	ctx context.Context, req *agent.ModelRequest, p agent.Part, types []string,
) (c Content, err error) {
	c = Content{Name: p.Name, MediaType: bareType(p.MediaType)}
	switch {
	case p.URL != "" && p.Kind == session.PartImage:
		c.URL = p.URL
		return c, nil
	case p.URL != "":
		return c.without(p, "it is at "+p.URL), nil
	case !slices.Contains(types, c.MediaType):
		return c.without(p, "its type cannot be shown"), nil
	case max(p.File.Size, int64(len(p.Data))) > MaxPart:
		return c.without(p, "it is too large to be shown"), nil
	case len(p.Data) > 0:
		c.Data = p.Data
		return c, nil
	}
	file, err := req.OpenFile(ctx, p.File)
	if err == nil {
		c.Data, err = io.ReadAll(io.LimitReader(file, MaxPart+1))
		_ = file.Close()
	}
	switch {
	case ctx.Err() != nil:
		return c, context.Cause(ctx)
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt),
		errors.Is(err, session.ErrNoFiles):
		return c.without(p, "it is gone"), nil
	case err != nil:
		return c, agent.Retryable(fmt.Errorf("provider: reading the file %q: %w", p.Name, err))
	case len(c.Data) == 0:
		return c.without(p, "it is empty"), nil
	}
	return c, nil
}

// without returns c with a note in the place of the file.
func (c Content) without(p agent.Part, why string) Content {
	kind := cmp.Or(string(p.Kind), string(session.PartFile))
	c.Data, c.URL = nil, ""
	c.Note = fmt.Sprintf("[%s %q (%s) is not shown: %s]", kind, p.Name,
		cmp.Or(c.MediaType, "of unknown type"), why)
	return c
}

// bareType returns a media type without its parameters.
func bareType(mediaType string) string {
	bare, _, _ := strings.Cut(mediaType, ";")
	bare = strings.ToLower(strings.TrimSpace(bare))
	if bare == "image/jpg" {
		return "image/jpeg"
	}
	return bare
}
