package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent/internal/attach"
	"github.com/offshoot-sdk/offshoot/agent/internal/workdir"
	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// An Attachment is a file that a sub-agent is given with its task. See docs/attachments.md.
type Attachment struct {
	// Name is that of a file, and not a path. White space around it is left out. No two of a task
	// are the same, and where the sub-agent has a work directory no two differ by letter case or by
	// how their characters are composed alone, and none is one that Windows reserves.
	Name string
	// MediaType is kept with the file. It may be empty.
	MediaType string
	// Reader has the bytes. The spawn reads it to its end, once, and does not close it. An error or
	// a panic of it refuses the spawn, with an error that is [ErrNotRecorded], too. So does the end
	// of ctx while a Read hangs, or the hard phase of a shutdown. A Read that does not return then
	// is named by Shutdown, with the session that spawns.
	Reader io.Reader
}

// attached is what is kept of the attachments of a sub-agent, whose transcript has the bytes. The
// zero attached has none.
type attached struct {
	// SessionID is that of the transcript of the requester if an earlier library has put the bytes
	// there; "": it has not.
	SessionID string        `json:"session,omitempty"`
	Files     []attach.File `json:"files"`
	Hint      string        `json:"hint,omitempty"`
}

// given is what a spawn has given to the sub-agent of a task.
type given struct {
	files  []attach.File
	onDisk bool // they are to be in its work directory
}

// summary returns what the model is told of the files of a sub-agent; nil: there are none.
func (g given) summary(of session.Key) *attach.Summary {
	if len(g.files) == 0 {
		return nil
	}
	dir := ""
	if g.onDisk {
		dir = attach.Dir(of.ID())
	}
	return attach.Summarize(dir, g.files)
}

// IsZero reports whether there are no files.
func (a attached) IsZero() bool { return len(a.Files) == 0 }

// spawnAttached starts the sub-agent of a task with attachments, which are read and put where they
// are the sub-agent's own before it exists. Of a Key that is known they are read, to be compared.
func (t *Task) spawnAttached(
	ctx context.Context, from Requester, x runExtra,
) (info RunInfo, err error) {
	rt, _ := from.actor()
	place, err := t.askPlace(ctx, from)
	if err == nil {
		err = t.checkAttachments(rt.cfg(), place.Base != "")
	}
	if err != nil {
		return info, attachmentError(err)
	}
	q, err := t.request(x)
	if err != nil {
		return info, err
	}
	q.Asked = true
	ctx, cancel := rt.bindings.whole(ctx) // a Reader may hang
	defer cancel()
	err = from.deposit(ctx, q, func(to spawn.Deposit) (err error) {
		put := to.Put
		if to.Ref == (session.Ref{}) {
			put = nowhere()
		}
		x.Attached, err = t.readAttachments(ctx, rt.cfg(), put, rt.pumpsFor(from.sessionKey()))
		if err != nil {
			return err
		}
		x.Attached.SessionID = to.Ref.SessionID
		t.given = given{x.Attached.Files, place.Base != ""}
		if q, err = t.request(x); err != nil {
			return err
		}
		q.ID, q.Files, q.Asked = to.ID, true, true
		info, err = from.spawnRun(ctx, q)
		return err
	})
	return info, err
}

// A putFunc puts what a reader has where it is kept.
type putFunc func(context.Context, io.Reader) (session.File, error)

// nowhere returns what takes files that are read and not kept.
func nowhere() putFunc {
	top := session.Must(session.MainKey(session.DefaultAgent))
	ref, files := session.Ref{Key: top, SessionID: session.NewID()}, session.NewMemory().Files
	return func(ctx context.Context, r io.Reader) (session.File, error) {
		return files.Put(ctx, ref, r, session.File{})
	}
}

// A pumpFunc starts a goroutine that reads an attachment until ctx ends.
type pumpFunc func(ctx context.Context, read func(context.Context))

// pumpsFor has a shutdown wait for the Readers that a session spawns with, and name the session if
// one of them does not return.
func (rt *Runtime) pumpsFor(of session.Key) pumpFunc {
	return func(ctx context.Context, read func(context.Context)) {
		rt.bindings.outside.Start(ctx, of, false, 0, func(ctx context.Context) error {
			read(ctx)
			return nil
		})
	}
}

// readAttachments puts the bytes of attachments that were checked where they are kept.
func (t *Task) readAttachments(
	ctx context.Context, c *Config, put putFunc, pump pumpFunc,
) (attached, error) {
	a := attached{Hint: t.AttachAs}
	for i, given := range t.Attachments {
		in := &attachmentReader{
			in: given.Reader, index: i, bounds: c.attachmentBounds(),
			before: int(attach.Total(a.Files)),
		}
		file, err := in.put(ctx, put, pump)
		own := attachmentError(err)
		over, tooLong := errors.AsType[*LimitError](own)
		switch {
		case err == nil:
		case tooLong:
			err = over
		case errors.Is(err, session.ErrArchived): // another owner has the tree now
			//nolint:errorlint // what is archived is not the requester
			err = fmt.Errorf("%w: %v", ErrNotRecorded, err)
		case !errors.Is(err, ErrNotRecorded): // the store, or the Reader, has failed
			err = fmt.Errorf("%w: %w", ErrNotRecorded, err)
		}
		if err != nil {
			return attached{}, fmt.Errorf(
				"agent: attachment %s: %w", text.QuoteWhole(given.Name), err)
		}
		a.Files = append(a.Files, attach.File{
			Name: strings.TrimSpace(given.Name), MediaType: given.MediaType, File: file,
		})
	}
	return a, nil
}

// attachmentBounds returns the limits of the Rules.
func (c *Config) attachmentBounds() attach.Limits {
	limits := c.Rules.Attachments.OrDefault()
	return attach.Limits{
		Files: limits.MaxFiles, FileBytes: limits.MaxFileBytes, TotalBytes: limits.MaxTotalBytes,
	}
}

// checkAttachments returns what is wrong with attachments before one is read.
func (t *Task) checkAttachments(c *Config, onDisk bool) error {
	if err := c.attachmentBounds().CheckCount(len(t.Attachments)); err != nil {
		return err
	}
	names, sizes := make([]string, len(t.Attachments)), make([]int, len(t.Attachments))
	for i, a := range t.Attachments {
		names[i] = strings.TrimSpace(a.Name)
		if a.MediaType != "" && !text.IsLine(a.MediaType, text.MaxName) {
			return &InputError{
				Field: fmt.Sprintf("Task.Attachments[%d].MediaType", i), Reason: fmt.Sprintf(
					"it is not one line of text, or is longer than the limit is, %d bytes",
					text.MaxName),
			}
		}
	}
	if err := attach.CheckNames(names, onDisk); err != nil {
		return err
	}
	for i, a := range t.Attachments {
		if a.Reader == nil {
			return &InputError{
				Field: fmt.Sprintf("Task.Attachments[%d].Reader", i), Reason: "it is missing",
			}
		}
		sizes[i] = attach.SizeOf(a.Reader)
	}
	if err := c.attachmentBounds().CheckSizes(sizes); err != nil {
		return err
	}
	if c.Store != nil && c.Store.Files == nil { // nil: one in memory, which has Files
		return session.ErrNoFiles
	}
	return nil
}

// previewAttachments returns what a sub-agent that works in a place would be given by a task. It
// reads the attachments if the place is that of the session that is looked at.
func (t *Task) previewAttachments(
	ctx context.Context, c *Config, place workdir.Place, reads bool,
) (a attached, err error) {
	if err = errors.Join(t.checkHint(), t.checkAttaching(&c.Rules)); err != nil {
		return a, err
	}
	if len(t.Attachments) == 0 {
		return a, nil
	}
	if err = t.checkAttachments(c, place.Base != ""); err != nil || !reads {
		return a, attachmentError(err)
	}
	return t.readAttachments(ctx, c, nowhere(),
		func(ctx context.Context, read func(context.Context)) { go read(ctx) })
}

// attachmentsPath is where the limits of attachments are set.
const attachmentsPath = "Config.Rules.Attachments.%s (tools.sessions_spawn.attachments.%s)"

// attachmentError returns an error in the words of a Task.
func attachmentError(err error) error {
	if bad, ok := errors.AsType[*attach.NameError](err); ok {
		return &InputError{
			Field:  fmt.Sprintf("Task.Attachments[%d].Name", bad.Index),
			Reason: text.QuoteWhole(bad.Name) + " " + bad.Reason,
		}
	}
	if bad, ok := errors.AsType[*attach.SizeError](err); ok {
		over := &LimitError{
			Field: "Task.Attachments", Size: bad.Size, Limit: bad.Limit, Unit: "bytes",
			Path: fmt.Sprintf(attachmentsPath, bad.Name, "m"+bad.Name[1:]),
		}
		if bad.Index >= 0 {
			over.Field = fmt.Sprintf("Task.Attachments[%d]", bad.Index)
		}
		if bad.Name == "MaxFiles" {
			over.Unit = "files"
		}
		return over
	}
	return err
}

// An attachmentReader reads one attachment within bounds. The Reader may hang, panic or end its
// goroutine.
type attachmentReader struct {
	in     io.Reader
	index  int
	bounds attach.Limits
	before int // how many bytes the files before it have

	read   int
	chunks chan chunk // of the goroutine that reads
	rest   chunk
}

type chunk struct {
	data []byte
	err  error
}

// put puts the bytes where they are kept.
func (r *attachmentReader) put(
	ctx context.Context, put putFunc, pump pumpFunc,
) (session.File, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the goroutine ends as soon as its Read has returned
	r.chunks = make(chan chunk)
	pump(ctx, r.pump)
	return put(ctx, readerFunc(func(p []byte) (int, error) { return r.next(ctx, p) }))
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// maxEmptyReads is how many Reads in a row may return nothing.
const maxEmptyReads = 100

// pump reads until ctx ends.
func (r *attachmentReader) pump(ctx context.Context) {
	send := func(c chunk) bool {
		select {
		case r.chunks <- c:
			return true
		case <-ctx.Done():
			return false
		}
	}
	err := protect("Reader", func() error {
		for empty := 0; empty < maxEmptyReads && ctx.Err() == nil; empty++ {
			data := make([]byte, 32<<10)
			n, err := r.in.Read(data)
			if n < 0 || n > len(data) {
				return fmt.Errorf("its reader says %d, where there is room for %d", n, len(data))
			}
			if n > 0 {
				empty = -1
				if !send(chunk{data: data[:n]}) {
					return nil
				}
			}
			if err != nil {
				return err
			}
		}
		return io.ErrNoProgress
	})
	if err != io.EOF { //nolint:errorlint // as who reads it compares it
		err = contain.Foreign(cmp.Or(err, io.ErrNoProgress), ErrUnconfirmed, ErrNotRecorded,
			ErrShutdown, ErrStale, ErrNotFound, session.ErrArchived)
	}
	send(chunk{err: err})
}

// next reads what the goroutine has read.
func (r *attachmentReader) next(ctx context.Context, p []byte) (int, error) {
	if len(r.rest.data) == 0 && r.rest.err == nil {
		select {
		case r.rest = <-r.chunks:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		r.read += len(r.rest.data)
		if err := r.bounds.CheckRead(r.index, r.read, r.before); err != nil {
			r.rest = chunk{err: err}
		}
	}
	if len(r.rest.data) == 0 {
		return 0, r.rest.err
	}
	n := copy(p, r.rest.data)
	r.rest.data = r.rest.data[n:]
	return n, nil
}

// deposit implements Requester.
func (s *Session) deposit(
	ctx context.Context, q spawn.Request, with func(spawn.Deposit) error,
) error {
	root, err := s.commandTree(ctx)
	var own error
	if err == nil {
		q.Policy.Model = s.rt.cfg().modelNamed(q.Policy.Model)
		err = s.rt.sup.Deposit(ctx, root, s.key, q, func(to spawn.Deposit) error {
			own = with(to)
			return own
		})
	}
	if own != nil {
		return own
	}
	return s.rt.commandOrArchived(ctx, s.key, inOurWords(err))
}

// deposit implements Requester.
func (t *Turn) deposit(
	ctx context.Context, q spawn.Request, with func(spawn.Deposit) error,
) error {
	if err := t.err(); err != nil {
		return err
	}
	q.Policy.Model = t.rt.cfg().modelNamed(q.Policy.Model)
	return inOurWords(t.spawn.Deposit(ctx, q, with))
}

// variant returns what tells a task from another one with the same Key that has other files.
func (a attached) variant() string {
	if a.IsZero() {
		return ""
	}
	// The digests in journals are of this form, with a member that has become empty.
	data, _ := json.Marshal(struct { // it has a form in JSON
		SessionID string        `json:"session"`
		Files     []attach.File `json:"files"`
		Hint      string        `json:"hint,omitempty"`
	}{Files: a.Files, Hint: a.Hint})
	return "\nfiles " + string(data)
}

// bringAttachments copies the files of a sub-agent that an earlier library has put under the
// transcript of its requester, before its first line, so that they have the fate of its own.
func (r *turnRecord) bringAttachments(
	ctx context.Context, requester session.Key, a attached,
) error {
	if a.SessionID == "" {
		return nil
	}
	from := []session.Ref{{Key: requester, SessionID: a.SessionID}}
	for _, f := range a.Files {
		found := false
		err := r.retry(ctx, func() error {
			return attempt(func() (err error) {
				found, err = r.bringFile(ctx, from, f.File)
				return err
			})
		})
		if err == nil && !found {
			err = session.ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("agent: attachment %s of %q: %w", text.Quote(f.Name), r.ref.Key, err)
		}
	}
	return nil
}

// checkHint returns what is wrong with the AttachAs of a task.
func (t *Task) checkHint() error {
	reason := attach.CheckHint(t.AttachAs)
	if reason == "" && t.AttachAs != "" && len(t.Attachments) == 0 {
		reason = "is for attachments, and there are none"
	}
	if reason != "" {
		return &InputError{Field: "Task.AttachAs", Reason: "it " + reason}
	}
	return nil
}

// checkAttaching returns a *policy.Refusal if the task may not have attachments.
func (t *Task) checkAttaching(rules *policy.Rules) error {
	if len(t.Attachments) == 0 {
		return nil
	}
	return inOurWords(rules.MayAttach(t.byModel))
}

// attachmentArgs are the files of a call of sessions_spawn.
type attachmentArgs struct {
	files []Attachment
	data  [][]byte
}

// task returns the files for a Task, whose spawn reads them.
func (a *attachmentArgs) task() []Attachment {
	files := append([]Attachment(nil), a.files...)
	for i := range files {
		files[i].Reader = bytes.NewReader(a.data[i])
	}
	return files
}

// attachments reads the attachments of a call. An error does not repeat a content.
func (a *arguments) attachments() (list attachmentArgs) {
	raw, name := a.value("attachments")
	if raw == nil {
		return list
	}
	var given []json.RawMessage
	if json.Unmarshal(raw, &given) != nil {
		a.fail(name, "it is not a list of files")
		return list
	}
	for i, raw := range given {
		name := fmt.Sprintf("attachments[%d]", i)
		f, content, encoding := Attachment{}, (*string)(nil), ""
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil || members == nil {
			a.fail(name, "it is not an object")
			return list
		}
		if member, twice := repeatedMember(raw); twice {
			a.fail(name, "its %s is there twice", text.QuoteWhole(member))
		}
		for member, value := range members {
			var to any
			switch member {
			case "name":
				to = &f.Name
			case "content":
				to = &content
			case "encoding":
				to = &encoding
			case "mimeType", "mime_type":
				to = &f.MediaType
			default:
				a.fail(name, "its member %s is not known; they are name, content, encoding and "+
					"mimeType", text.QuoteWhole(member))
				continue
			}
			if json.Unmarshal(value, to) != nil {
				a.fail(name, "its %s is not a string", member)
			}
		}
		if content == nil {
			a.fail(name, "its content is missing")
			return list
		}
		data, err := attach.Decode(*content, strings.TrimSpace(encoding))
		if bad, ok := errors.AsType[*attach.ContentError](err); ok {
			a.fail(name, "its content %s", bad.Reason)
		}
		list.files, list.data = append(list.files, f), append(list.data, data)
	}
	return list
}

// withoutContents returns a message in which no call of sessions_spawn has the contents of
// attachments. The form of the provider would have them, and is left out then.
func withoutContents(m Message) Message {
	calls := m.ToolCalls
	for i, c := range calls {
		if !isSpawnCall(c.Name) {
			continue
		}
		shown, changed := attach.Redact(c.Args)
		if !changed {
			continue
		}
		if m.Raw = nil; &m.ToolCalls[0] == &calls[0] {
			m.ToolCalls = append([]ToolCall(nil), calls...)
		}
		m.ToolCalls[i].Args = shown
	}
	return m
}

// isSpawnCall reports whether a model means sessions_spawn.
func isSpawnCall(name string) bool { return strings.EqualFold(strings.TrimSpace(name), toolSpawn) }

// withAttachments returns a schema of sessions_spawn with what it has where models may attach
// files.
func (c *Config) withAttachments(schema json.RawMessage) json.RawMessage {
	if !c.Rules.Attachments.Enabled {
		return schema
	}
	most := c.Rules.Attachments.OrDefault().MaxFiles
	return bytes.Replace(schema, []byte(`"sandbox":`), fmt.Appendf(nil,
		`"attachments":{"type":"array","maxItems":%d,"description":"files for it","items":{`+
			`"type":"object","properties":{"name":{"type":"string","description":"no path"},`+
			`"content":{"type":"string"},"encoding":{"type":"string","enum":["utf8","base64"]},`+
			`"mimeType":{"type":"string"}},"required":["name","content"]}},`+
			`"attachAs":{"type":"string","description":"where you think of the files as being; a `+
			`hint only"},"sandbox":`, most), 1)
}

// attachmentMembers names the fields of an Attachment as a model gives them.
var attachmentMembers = strings.NewReplacer(
	".Name", ".name", ".MediaType", ".mimeType", ".Reader", ".content",
)

// inArguments returns what is wrong with a field of a Task as what is wrong with an argument, or
// nil if it is not one that the model gives by another name.
func inArguments(err error) error {
	bad, ok := errors.AsType[*InputError](err)
	if !ok {
		return nil
	}
	if bad.Field == "name" {
		return newArgumentError(toolSpawn, "taskName", bad.Reason)
	}
	for field, argument := range map[string]string{
		"Task.Dir": "cwd", "Task.AttachAs": "attachAs", "Task.Attachments": "attachments",
	} {
		if rest, ok := strings.CutPrefix(bad.Field, field); ok {
			return newArgumentError(
				toolSpawn, argument+attachmentMembers.Replace(rest), bad.Reason)
		}
	}
	return nil
}
