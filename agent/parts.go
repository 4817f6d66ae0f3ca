package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent/internal/thread"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// exactTypes are the media types whose bytes [http.DetectContentType] knows for certain.
var exactTypes = []string{
	"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf",
}

// unknownType is the media type of bytes that no rule knows.
const unknownType = "application/octet-stream"

// withRealType returns p as its bytes are, of which head are the first 512 or all: a MediaType that
// is missing is theirs, and so is one that they contradict. So is the Kind image, audio or video
// then. What the bytes leave open stays as the sender has it: many formats are texts or archives.
func withRealType(p Part, head []byte) Part {
	full := http.DetectContentType(head)
	found, claimed := bareType(full), bareType(p.MediaType)
	lie := contradicts(found, claimed)
	if lie || (claimed == "" || claimed == unknownType) && found != unknownType {
		p.MediaType = full
	}
	kind, known := kindOf(found)
	said, _ := kindOf(string(p.Kind) + "/")
	switch {
	case said == PartFile: // or a kind of a newer version
	case lie && !known:
		p.Kind = PartFile
	case !known || p.Kind == kind || claimed == svgType && !lie:
	case p.Kind != PartImage && kind != PartImage && kind != PartFile:
		// sound and film share formats
	default:
		p.Kind = kind
	}
	return p
}

const svgType = "image/svg+xml"

// contradicts reports whether bytes of the type found cannot be of the type claimed.
func contradicts(found, claimed string) bool {
	if claimed == "" || claimed == unknownType || claimed == found {
		return false
	}
	if slices.Contains(exactTypes, found) || slices.Contains(exactTypes, claimed) ||
		claimed == "image/jpg" {
		return true
	}
	is, known := kindOf(found)
	said, _ := kindOf(claimed)
	if !known || said == PartFile || is == said || claimed == svgType && is == PartFile {
		return false
	}
	return is == PartFile || is == PartImage || said == PartImage
}

// kindOf returns the kind of bytes of a media type, and false where it may be any.
func kindOf(mediaType string) (kind PartKind, known bool) {
	major, _, _ := strings.Cut(mediaType, "/")
	switch {
	case mediaType == unknownType || mediaType == "application/ogg":
		return PartFile, false
	case major == "image" || major == "audio" || major == "video":
		return PartKind(major), true
	}
	return PartFile, true
}

// bareType returns a media type without its parameters.
func bareType(mediaType string) string {
	bare, _, _ := strings.Cut(mediaType, ";")
	return strings.ToLower(strings.TrimSpace(bare))
}

// checkPart returns why a message cannot have a Part that is handed over, or nil.
func (l Limits) checkPart(p Part) error {
	if err := p.ValidateNew(); err != nil {
		return err
	}
	return overLimit("Data", len(p.Data), l.Part, "bytes", "Part")
}

// checkParts refuses parts that a message of a Runner cannot have.
func (l Limits) checkParts(parts []Part) error {
	err := overLimit("Message.Parts", len(parts), l.Parts, "parts", "Parts")
	if err != nil {
		return err
	}
	for i, p := range parts {
		err := l.checkPart(p)
		if bad, ok := errors.AsType[*session.PartError](err); ok {
			bad.Index = i
		}
		if over, ok := errors.AsType[*LimitError](err); ok {
			over.Field = fmt.Sprintf("Message.Parts[%d].Data", i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A partFault is a Part that is left out of a message, and why.
type partFault struct {
	index int // of the Part
	err   error
}

// String returns what the model is told.
func (f partFault) String() string {
	reason := "it cannot be kept now" // a store's own words may name files of the host
	if bad, ok := errors.AsType[*session.PartError](f.err); ok {
		reason = bad.Field + ": " + bad.Reason
	} else if over, ok := errors.AsType[*InputError](f.err); ok {
		reason = over.Reason
	} else if errors.Is(f.err, session.ErrNoFiles) {
		reason = "attachments cannot be kept here"
	}
	return fmt.Sprintf("%d (%s)", f.index+1, text.Bound(reason, maxPartFault))
}

// maxPartFault is how many bytes the model is told of one Part that was left out.
const maxPartFault = 300

// choose returns the Parts that a message may have by the Limits, with their real types, and why it
// may not have the others. It stops at Limits.Parts; beyond says how many come after.
func (l Limits) choose(parts []Part) (kept []indexedPart, faults []partFault, beyond int) {
	for i, p := range parts {
		if l.Parts >= 0 && len(kept) == l.Parts {
			return kept, faults, len(parts) - i
		}
		if err := l.checkPart(p); err != nil {
			faults = append(faults, partFault{i, err})
			continue
		}
		if len(p.Data) > 0 {
			p = withRealType(p, p.Data)
		}
		kept = append(kept, indexedPart{i, p})
	}
	return kept, faults, 0
}

// An indexedPart is a Part with its place among those that a tool returned.
type indexedPart struct {
	index int
	Part
}

// keepParts puts the bytes of parts that a tool or a model has made into the Store. It returns the
// Parts for the transcript, and a note for the model of what is left out, which the log has, too.
// The error is that of ctx.
func (t *Turn) keepParts(
	ctx context.Context, from string, parts []Part,
) (kept []Part, note string, err error) {
	if len(parts) == 0 {
		return nil, "", nil
	}
	limits := t.rt.cfg().Limits
	chosen, faults, beyond := limits.choose(parts)
	var failed error // of the store
	for _, p := range chosen {
		stored, err := t.log.storePart(ctx, p.Part)
		if err != nil && ctx.Err() != nil {
			return nil, "", context.Cause(ctx)
		}
		if err != nil {
			faults = append(faults, partFault{p.index, err})
			failed = errors.Join(failed, err)
			continue
		}
		kept = append(kept, stored)
	}
	left := len(parts) - len(kept)
	if left == 0 {
		return kept, "", nil
	}
	slices.SortFunc(faults, func(a, b partFault) int { return cmp.Compare(a.index, b.index) })
	why := text.Listed(faults, partFault.String)
	if beyond > 0 {
		why = append(why, fmt.Sprintf("the last %d (at most %d are kept)", beyond, limits.Parts))
	}
	said := strings.Join(why, "; ")
	t.rt.log.Warn("offshoot: parts of a message were left out", "session",
		t.Session.Key.String(), "turn", t.N, "from", from, "parts", len(parts), "left", left,
		"why", said, "store", fmt.Sprint(redact(failed)))
	note = fmt.Sprintf("\n[Offshoot] Of %s, %d %s left out: %s.",
		text.Count(len(parts), "attachment", "attachments"), left, wasOrWere(left), said)
	return kept, note, nil
}

func wasOrWere(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// keepToolParts is keepParts for what a tool has returned.
func (t *Turn) keepToolParts(
	ctx context.Context, tool string, out ToolResult,
) (ToolResult, error) {
	kept, note, err := t.keepParts(ctx, "tool "+text.Word(tool), out.Parts)
	if err != nil {
		return ToolResult{Text: out.Text}, err
	}
	out.Parts = kept
	if note != "" {
		out.Text = withNote(out.Text, note, t.rt.cfg().Limits.ToolResult)
	}
	return out, nil
}

// storePart puts the Data of a valid Part into the Store. A File has to be there: one that is not
// would fail each later turn of a Runner that opens every Part.
func (r *turnRecord) storePart(ctx context.Context, p Part) (Part, error) {
	switch {
	case !p.File.IsZero():
		return p, r.checkFile(ctx, p.File)
	case len(p.Data) == 0:
		return p, nil
	}
	file, err := r.put(ctx, p.Data)
	if err != nil {
		return p, err
	}
	p.File, p.Data = file, nil
	return p, nil
}

// storeParts puts the bytes of valid parts into the Store, and returns them for the transcript.
func (r *turnRecord) storeParts(ctx context.Context, parts []Part) ([]Part, error) {
	if len(parts) == 0 {
		return nil, nil
	}
	stored := make([]Part, len(parts))
	for i, p := range parts {
		if len(p.Data) > 0 {
			p = withRealType(p, p.Data)
		}
		var err error
		stored[i], err = r.storePart(ctx, p)
		if bad, ok := errors.AsType[*session.PartError](err); ok {
			bad.Index = i
		}
		if err != nil {
			return nil, fmt.Errorf("agent: Parts[%d] of a message of %q: %w", i, r.ref.Key, err)
		}
	}
	return stored, nil
}

// put puts bytes into the files of the transcript. It tries again until the store takes them, as
// appendLines does.
func (r *turnRecord) put(ctx context.Context, data []byte) (file session.File, err error) {
	if r.files == nil {
		return file, session.ErrNoFiles
	}
	err = r.retry(ctx, func() error {
		return attempt(func() (err error) {
			file, err = r.files.Put(ctx, r.ref, bytes.NewReader(data), session.File{})
			return err
		})
	})
	if err == nil {
		r.sound.Store(file, true)
	}
	return file, err
}

// openFile opens a file of the transcript.
func (r *turnRecord) openFile(ctx context.Context, f session.File) (io.ReadCloser, error) {
	return openFile(ctx, r.files, r.ref, f, func(open func() error) error {
		return r.retry(ctx, func() error { return attempt(open) })
	})
}

// openFile opens a file of a transcript by calls of call.
func openFile(
	ctx context.Context, files session.Files, ref session.Ref, f session.File,
	call func(open func() error) error,
) (in io.ReadCloser, err error) {
	switch {
	case f.IsZero():
		err = fmt.Errorf("the part has no file: %w", session.ErrNotFound)
	case files == nil:
		err = session.ErrNoFiles
	default:
		if err = f.Validate(); err == nil {
			err = call(func() (err error) {
				in, err = files.Open(ctx, ref, f.Hash)
				return err
			})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("agent: opening a file of %q: %w", ref.Key, err)
	}
	return &sizedReader{ReadCloser: in, file: f, left: f.Size}, nil
}

// A sizedReader reads a file that has as many bytes as its name says. One with fewer or more of
// them is an error that is [session.ErrCorrupt], of the Read that would return the last of them. It
// reads at most one byte more than the file has.
type sizedReader struct {
	io.ReadCloser
	file session.File
	left int64 // until the file has to end
	err  error // of every Read from now on
}

// Read implements io.Reader.
func (r *sizedReader) Read(p []byte) (n int, err error) {
	if r.err != nil || len(p) == 0 {
		return 0, r.err
	}
	if r.left > 0 {
		n, err = r.ReadCloser.Read(p[:min(int64(len(p)), r.left)])
		r.left -= int64(n)
	}
	end, more := r.left == 0, 0
	if end && err == nil {
		more, err = io.ReadFull(r.ReadCloser, make([]byte, 1))
	}
	if more > 0 || err == io.EOF && !end {
		err = &session.CorruptError{
			File: r.file.Hash, Offset: r.file.Size - r.left,
			Reason: fmt.Sprintf("its size is not that of its reference, which is %d", r.file.Size),
		}
	}
	if r.err = err; err != nil && err != io.EOF {
		n = 0
	}
	return n, err
}

// checkFile returns a *[session.PartError] unless the transcript has a file with its bytes, and why
// that cannot be found out. It tries again until the store can be read. What the turn has put or
// found is not read again.
func (r *turnRecord) checkFile(ctx context.Context, f session.File) error {
	if r.files == nil {
		return session.ErrNoFiles
	}
	if _, sound := r.sound.Load(f); sound {
		return nil
	}
	err := r.retry(ctx, func() error {
		return attempt(func() error { return readThrough(ctx, r.files, r.ref, f) })
	})
	switch {
	case err == nil:
		r.sound.Store(f, true)
	case errors.Is(err, session.ErrNotFound):
		return &session.PartError{
			Field: "File", Reason: "the transcript of the session has no such file",
		}
	case errors.Is(err, session.ErrCorrupt), errors.Is(err, session.ErrFileChanged):
		return &session.PartError{
			Field: "File", Reason: "its bytes are not those that the transcript of the session has",
		}
	}
	return err
}

// readThrough returns why the bytes of a file cannot be read, or are not what its name says. It
// does not hold them.
func readThrough(
	ctx context.Context, files session.Files, ref session.Ref, f session.File,
) error {
	in, err := openFile(ctx, files, ref, f, func(open func() error) error { return open() })
	if err != nil {
		return err
	}
	all, err := session.NewFileReader(ctx, in, f)
	if err == nil {
		_, err = io.Copy(io.Discard, all)
	}
	if err == nil {
		_, err = all.File()
	}
	return errors.Join(err, in.Close())
}

// PutFile keeps the bytes of r, for a Part that the caller then records with [Turn.Record]: those
// that are too large to hold as Data, or that come as a stream. It returns p with its File, and
// with the MediaType that the bytes have if p has none, or one that they contradict. Bytes that no
// line names do no harm, and go with the transcript.
//
// The error is a *[session.PartError] for a p that is not valid or has bytes already, and for an r
// without bytes. It is a *[LimitError] for more than Limits.Part, [session.ErrNoFiles] where
// the Store has none, [ErrStale] after the turn, and else that of r or of the Store.
func (t *Turn) PutFile(ctx context.Context, r io.Reader, p Part) (Part, error) {
	if err := t.rt.checked(ctx); err != nil {
		return p, err
	}
	if err := t.err(); err != nil {
		return p, err
	}
	if r == nil {
		return p, &InputError{Field: "r", Reason: "it is missing"}
	}
	if len(p.Data) > 0 {
		return p, &session.PartError{Field: "Data", Reason: "the bytes come from the reader"}
	}
	whole := p
	whole.Data = []byte{0} // r has them
	if err := whole.ValidateNew(); err != nil {
		return p, err
	}
	if t.log.files == nil {
		return p, session.ErrNoFiles
	}
	ctx, done := t.spawn.Within(ctx)
	defer done()
	stored := p
	err := attempt(func() (err error) {
		stored, err = t.log.putStream(ctx, r, p, t.rt.cfg().Limits)
		return err
	})
	if err != nil {
		return p, fmt.Errorf("agent: putting a file of %q: %w", t.Session.Key, err)
	}
	return stored, nil
}

// sniffLen is how many bytes [http.DetectContentType] looks at.
const sniffLen = 512

// putStream puts the bytes of in, whose first ones tell what they are.
func (r *turnRecord) putStream(
	ctx context.Context, in io.Reader, p Part, l Limits,
) (Part, error) {
	head := make([]byte, sniffLen)
	n, err := io.ReadFull(in, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return p, err
	}
	if n == 0 {
		return p, &session.PartError{Field: "File", Reason: "it has no bytes"}
	}
	p = withRealType(p, head[:n])
	if err := r.mayAct(ctx); err != nil {
		return p, err
	}
	all := io.MultiReader(bytes.NewReader(head[:n]), in)
	p.File, err = r.files.Put(ctx, r.ref, &boundedReader{r: all, limit: l.Part},
		session.File{})
	if err == nil {
		r.sound.Store(p.File, true)
	}
	return p, err
}

// A boundedReader returns a *LimitError once it has read more than a limit, unless that is
// negative.
type boundedReader struct {
	r     io.Reader
	limit int
	n     int
}

// Read implements io.Reader.
func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.n += n
	if over := overLimit("Part", b.n, b.limit, "bytes or more", "Part"); over != nil {
		return 0, over
	}
	return n, err
}

// OpenFile opens the bytes of a Part of one of the Messages, or of a ToolResult: only files of this
// session's transcript are found. The caller closes them.
//
// A file that is gone is an error that is [session.ErrNotFound]. Bytes that are not what was put,
// or not as many as f has, are [session.ErrCorrupt], of OpenFile or of a Read before its io.EOF. No
// Read returns more than f has. The error is [session.ErrNoFiles] where the Store has none, and
// [ErrStale] after the turn.
func (t *Turn) OpenFile(ctx context.Context, f session.File) (io.ReadCloser, error) {
	if err := t.rt.checked(ctx); err != nil {
		return nil, err
	}
	if err := t.err(); err != nil {
		return nil, err
	}
	ctx, done := t.spawn.Within(ctx)
	defer done()
	return t.log.openFile(ctx, f)
}

// OpenFile opens the bytes of a Part of what was said in the session, such as one of its
// [Session.History]. They are found as long as the transcript is kept, also after it was archived.
// The caller closes them, and may read on when ctx is done.
//
// A file that is gone is an error that is [session.ErrNotFound], and bytes that are not what was
// put, or not as many as f has, are [session.ErrCorrupt], of OpenFile or of a Read before its
// io.EOF. No Read returns more than f has. The error is [session.ErrNoFiles] where the Store has
// none, [ErrNotFound] for a session that is not on record, or one that every call that reads can
// return.
func (s *Session) OpenFile(ctx context.Context, f session.File) (io.ReadCloser, error) {
	if err := s.rt.checked(ctx); err != nil {
		return nil, err
	}
	h, err := s.findTranscript(ctx)
	if err != nil && !h.archivable(err) {
		return nil, err
	}
	files := s.rt.cfg().Store.Files
	if files != nil {
		files = leftFiles{files, h.inStore}
	}
	r, failed := openFile(ctx, files, h.ref, f, func(open func() error) error { return open() })
	if failed != nil && err != nil && errors.Is(failed, session.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", err, failed) // nor is the session there
	}
	return r, failed
}

// leftFiles are Files whose Open its caller can leave. A file that is opened then is closed.
type leftFiles struct {
	session.Files

	inStore func(context.Context, func(context.Context) error) error // see [bindings.inStore]
}

// Open implements session.Files.
func (l leftFiles) Open(
	ctx context.Context, ref session.Ref, hash string,
) (io.ReadCloser, error) {
	var made thread.Late[io.ReadCloser]
	err := l.inStore(ctx, func(ctx context.Context) error {
		in, err := l.Files.Open(ctx, ref, hash)
		if err == nil {
			made.Set(in)
		}
		return err
	})
	if err != nil {
		made.Leave(func(in io.ReadCloser) { _ = attempt(in.Close) })
		return nil, err
	}
	return made.Get(), nil
}

// OpenFile opens the bytes of a Part of one of the Messages, as [Turn.OpenFile] does. A request
// that is not of a Loop has no files: the error is [session.ErrNoFiles].
func (r *ModelRequest) OpenFile(ctx context.Context, f session.File) (io.ReadCloser, error) {
	if r.open == nil {
		return nil, fmt.Errorf("agent: a ModelRequest without a turn: %w", session.ErrNoFiles)
	}
	return r.open(ctx, f)
}
