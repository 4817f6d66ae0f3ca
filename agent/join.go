package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// An Outcome is how one run stands when its Join is over.
type Outcome[T any] struct {
	Value T
	Err   error // nil if Value is valid, else a *RunError or *ResultError
	Run   RunInfo
}

// A JoinError is a Join that ended with too few values: OK runs ended ok with a result that is a T,
// and Want were asked for.
type JoinError struct{ OK, Want int }

func (e *JoinError) Error() string {
	return fmt.Sprintf("agent: %d of %d sub-agents ended well", e.OK, e.Want)
}

// Join waits for sub-agents of the tree of from. It always returns one Outcome for each, in order,
// also beside an error: the cause of ctx, a *JoinError if fewer than JoinOptions.AtLeast (all, if
// that is zero) ended well in time, [ErrArchived], which is [ErrNotFound] too, if one without a Key
// has been archived, or one that every call that waits can return. Without children it returns nil
// at once, also after the end of the Runtime. The error is an *[InputError], without outcomes, for
// a from that is nil, a child that is nil or of another tree, and a wait without a limit, from a
// turn or under its ctx, for the run of that turn or one above it: that ends after the turn.
//
// A wait from a Turn ends with the turn, which holds no slot of the lane meanwhile. The error is
// then [ErrStale]. So it is for children that were spawned from a Turn, whatever from is.
//
// A spawn that was refused is not a child, so a program that starts more than the limit of active
// children collects some before it spawns the others: none is queued.
//
// What has not ended when the wait is over goes on and spends, and its Outcome says that it is
// still running. With [RestStop] it is stopped, and its Outcome has what there is. With
// [RestAnnounce] it goes on, and the session that spawned it, or Config.Deliver, is told of its end
// as with Task.Announce: a sub-agent is either in the outcomes as ended or told of later. After an
// error other than a *JoinError what has not ended goes on, whatever opt.Rest says.
func Join[T any](
	ctx context.Context, from Requester, children []*Child[T], opt JoinOptions,
) ([]Outcome[T], error) {
	if err := checkRequester(from, "wait"); err != nil {
		return nil, err
	}
	if opt.AtLeast < 0 {
		return nil, &InputError{
			Field: "AtLeast", Reason: fmt.Sprintf("%d is negative", opt.AtLeast),
		}
	}
	if _, err := opt.Rest.MarshalText(); err != nil {
		return nil, &InputError{Field: "Rest", Reason: err.Error()}
	}
	rt, turn := from.actor()
	for i, c := range children {
		field := fmt.Sprintf("children[%d]", i)
		if err := c.check(ctx, field); err != nil {
			return nil, err
		}
		if c.rt != rt {
			return nil, &InputError{Field: field, Reason: "it is of another Runtime"}
		}
		if turn == nil {
			turn = c.turn
		}
	}
	if turn != nil && turn.err() != nil {
		return nil, turn.err()
	}
	if len(children) == 0 {
		if opt.AtLeast > 0 {
			return nil, &JoinError{Want: opt.AtLeast}
		}
		return nil, nil
	}
	root, err := from.waitRoot(ctx)
	if err != nil {
		return nil, err
	}
	return join(ctx, turn, root, children, opt)
}

// join is Join, for a turn or for none.
func join[T any](
	ctx context.Context, turn *Turn, root session.Key, children []*Child[T], opt JoinOptions,
) ([]Outcome[T], error) {
	refs := make([]spawn.RunRef, len(children))
	for i, c := range children {
		if c.root != root {
			return nil, &InputError{
				Field: fmt.Sprintf("children[%d]", i), Reason: "it is of another tree than " +
					root.String(),
			}
		}
		refs[i] = c.ref()
	}
	infos, err := children[0].waitFor(ctx, turn, refs, opt)
	if infos == nil {
		outcomes := make([]Outcome[T], len(children))
		for i, c := range children {
			outcomes[i] = Outcome[T]{Run: RunInfo{ID: c.id, Key: c.key, Root: c.root}, Err: err}
		}
		return outcomes, err
	}
	outcomes := make([]Outcome[T], len(infos))
	good := 0
	for i, info := range infos {
		outcomes[i] = outcomeOf[T](children[0].rt, info)
		if outcomes[i].Err == nil {
			good++
		}
	}
	want := opt.AtLeast
	if want == 0 {
		want = len(children)
	}
	if err == nil && good < want {
		err = &JoinError{OK: good, Want: want}
	}
	return outcomes, err
}

func outcomeOf[T any](rt *Runtime, info RunInfo) Outcome[T] {
	o := Outcome[T]{Run: info}
	switch {
	case isText[T]():
		if info.Status == spawn.StatusOK {
			reflect.ValueOf(&o.Value).Elem().SetString(info.Result.Text)
			return o
		}
	case info.Status == spawn.StatusOK, info.Refused != "":
		value, err := typedResult[T](info.Result)
		if err == nil && info.Refused == "" {
			o.Value = value
			return o
		}
		if err == nil { // it is of a T that its run was not asked for
			err = errors.New(info.Refused)
		}
		schema, _ := ResultSchema[T]() // of a T without one there is no Child
		o.Err = &ResultError{Run: info, Schema: schema, Err: err}
		return o
	}
	o.Err = &RunError{Run: info, label: rt.maskedLabel(info.Label)}
	return o
}
