package spawn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A Result is what a turn or a run produced. The zero Result is an empty one.
//
// A text or a JSON of more than 65,536 bytes is kept in the [session.Files] of the Store, if it has
// any, beside the transcript of its session. [Supervisor.Wait], [TurnInput.Wait] and the Deliver of
// the Config give it whole. Everything else gives the beginning of the text and the name of the
// whole; [Result.Load] reads that.
type Result struct {
	// Text is the final answer, byte for byte as the Runner returned it. If Whole has more bytes,
	// it is the beginning, of at most 4,096 bytes.
	Text string `json:"text,omitempty"`
	// JSON is a typed result, where one was asked for. It is nil if WholeJSON is set and it was not
	// loaded.
	JSON json.RawMessage `json:"json,omitempty"`
	// Whole names all bytes of a Text that is in a file; zero: the text is not in a file. The
	// library sets it, and WholeJSON; what a Runner returns there is not kept.
	Whole session.File `json:"whole,omitzero"`
	// WholeJSON names all bytes of a JSON that is in a file; zero: it is not in a file.
	WholeJSON session.File `json:"wholeJSON,omitzero"`
	// Files are what was made, by reference.
	Files []File `json:"files,omitempty"`
	// Usage is what was consumed: in the Result that a Runner returns by that turn, in the Result
	// of a RunInfo by all turns of the run whose end is recorded. What a turn had spent that a
	// crash interrupted, or that was given up, is not in it; budgets are charged for all that such
	// a turn had reserved.
	Usage session.Usage `json:"usage,omitzero"`
	// Model is the model that the Runner called; empty if the Runner does not say.
	Model string `json:"model,omitempty"`
}

// isZero reports whether a turn has come to nothing, and has used nothing.
func (r *Result) isZero() bool {
	return r.Text == "" && len(r.JSON) == 0 && len(r.Files) == 0 && r.Usage.IsZero()
}

// A ModelUsage is what was used of one model. An empty Model stands for the one that policy
// resolved.
type ModelUsage struct {
	Model string
	Usage session.Usage
}

// OtherModels is the Model of what was used of models beyond a bound: 32 in a turn, and 256 that an
// agent has used in a tree. See [UsageReport].
const OtherModels = tree.OtherModels

// maxTurnModels is how many models of one turn are told apart.
const maxTurnModels = 32

// addModel adds what was used of a model. A name that is not one counts as none.
func addModel(list []ModelUsage, model string, u session.Usage) []ModelUsage {
	if !text.IsLine(model, text.MaxName) {
		model = ""
	}
	find := func() int {
		return slices.IndexFunc(list, func(m ModelUsage) bool { return m.Model == model })
	}
	i := find()
	if i < 0 && len(list) >= maxTurnModels {
		model = OtherModels
		i = find()
	}
	if i < 0 {
		return append(list, ModelUsage{model, u})
	}
	list[i].Usage = list[i].Usage.Add(u)
	return list
}

// attribute records which models a turn has used, if a reader of the answer could not tell: if they
// are several, or not the Model of the answer, or not the one that is on record for the run.
func (t *TurnInput) attribute(a *tree.Result, models []ModelUsage) {
	top := t.Run.ID == ""
	if len(models) == 0 && a.Model == "" && top && a.Usage != (tree.Usage{}) {
		models = []ModelUsage{{Usage: usageOf(a.Usage)}}
	}
	if len(models) == 0 {
		return
	}
	onRecord := t.Run.Model.Resolved // empty for a top-level session
	resolved := onRecord
	if top {
		resolved = t.shell.sup.modelOf(t.run)
	}
	var list []ModelUsage
	var sum session.Usage
	for _, m := range models {
		u := usageOf(treeUsage(m.Usage).Clean())
		list = addModel(list, cmp.Or(m.Model, resolved), u)
		sum = sum.Add(u)
	}
	a.Usage = treeUsage(sum)
	if len(list) == 1 && list[0].Model == cmp.Or(string(a.Model), onRecord) {
		return
	}
	for _, m := range list {
		a.Own().ByModel = append(a.ByModel(), tree.ModelUsage{
			Model: tree.Text(m.Model), Usage: treeUsage(m.Usage),
		})
	}
}

// A File is a reference to something that a run made.
type File struct {
	Name      string `json:"name"`
	Path      string `json:"path,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
}

// Load reads what of r is in files, so that Text and JSON are whole. ref is the transcript of the
// session, with the Key and the SessionID of its [RunInfo]. Load does nothing if r is whole. The
// errors are those of [session.ReadFile], and leave r as it is.
func (r *Result) Load(ctx context.Context, files session.Files, ref session.Ref) error {
	if r.isWhole() {
		return nil
	}
	whole := *r
	if r.Whole.Size > int64(len(r.Text)) {
		data, err := session.ReadFile(ctx, files, ref, r.Whole)
		if err != nil {
			return fmt.Errorf("spawn: the result of %q: %w", ref.Key, err)
		}
		whole.Text = string(data)
	}
	if r.WholeJSON.Size > int64(len(r.JSON)) {
		data, err := session.ReadFile(ctx, files, ref, r.WholeJSON)
		if err != nil {
			return fmt.Errorf("spawn: the JSON result of %q: %w", ref.Key, err)
		}
		whole.JSON = data
	}
	*r = whole
	return nil
}

// isWhole reports whether nothing of a result is in files alone.
func (r *Result) isWhole() bool {
	return r.Whole.Size <= int64(len(r.Text)) && r.WholeJSON.Size <= int64(len(r.JSON))
}

// loadResult has the Result of a run be whole, whatever the store does.
func (s *Supervisor) loadResult(ctx context.Context, run *RunInfo) error {
	if run.Result.isWhole() {
		return nil
	}
	ref := session.Ref{Key: run.Key, SessionID: run.SessionID}
	return contained(func() error { return run.Result.Load(ctx, s.cfg.Store.Files, ref) })
}

const (
	// longResult is how many bytes of a text or a JSON the tree keeps. A run keeps its result in
	// memory and in each snapshot until it is archived.
	longResult = 64 << 10
	// resultHead is how many bytes the tree keeps of a text that is longer.
	resultHead = 4 << 10

	firstPutPause = 50 * time.Millisecond
	lastPutPause  = 5 * time.Second
)

// spill puts what is long of the answer of a turn into the files of the session, and leaves its
// name and its beginning in the answer. What cannot be put stays in the answer. The Runner has
// returned, and the tree still counts on the turn.
func (sh *treeShell) spill(rt *runningTurn, a *tree.Result) {
	if sh.sup.cfg.Store.Files == nil {
		return
	}
	if len(a.Text) > longResult {
		if f, ok := sh.putLong(rt, string(a.Text)); ok {
			head := secret.Cut(redactBy(sh.sup.cfg.Redact), string(a.Text), resultHead)
			a.Own().Whole, a.Text = f, tree.Text(strings.Clone(head))
		}
	}
	if len(a.JSON) > longResult {
		if f, ok := sh.putLong(rt, string(a.JSON)); ok {
			a.Own().WholeJSON, a.JSON = f, ""
		}
	}
}

// putLong puts a part of a result, and tries again while the store may recover, until the turn is
// cancelled. For a turn that is cancelled already it tries once, for half of the grace period.
func (sh *treeShell) putLong(rt *runningTurn, whole string) (session.File, bool) {
	ctx := rt.turn.fence.life
	if ctx.Err() != nil {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(context.WithoutCancel(ctx), sh.sup.cfg.Grace/2)
		defer done()
	}
	log := sh.sup.log.With("session", rt.key.String(), "bytes", len(whole))
	for pause := firstPutPause; ; pause = min(2*pause, lastPutPause) {
		f, err := sh.putOnce(ctx, rt, whole)
		if err == nil {
			return f, true
		}
		last := session.IsPermanent(err) || errors.Is(err, errStoreExited) ||
			rt.turn.fence.life.Err() != nil || ctx.Err() != nil
		if last || pause == firstPutPause {
			log.Warn("offshoot: a long result cannot be kept in a file", "error", sh.sup.errorText(err))
		}
		if last {
			return f, false
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return f, false
		}
	}
}

// putOnce calls Put, and contains what the store does.
func (sh *treeShell) putOnce(
	ctx context.Context, rt *runningTurn, whole string,
) (f session.File, err error) {
	ref := session.Ref{Key: rt.key, SessionID: rt.turn.SessionID}
	err = contained(func() (err error) {
		f, err = sh.sup.cfg.Store.Files.Put(ctx, ref, strings.NewReader(whole), session.File{})
		return err
	})
	return f, err
}
