package tree

import (
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// announce has a run that is about to announce in a turn of its own meet what may befall that.
// Random commands alone seldom come in its time.
func (d *driver) announce(k session.Key, what byte) error {
	r := d.tree.Run(k)
	if r == nil || !d.tree.wantsStep(r) || !d.asked[k] {
		return nil
	}
	if what%16 == 0 { // before its slot
		return d.post(k, what)
	}
	if err := d.grant(k); err != nil {
		return err
	}
	tick := func(after time.Duration) error {
		d.now += int64(after)
		return d.do(Tick{})
	}
	switch what % 16 {
	case 1, 2:
		return d.post(k, what)
	case 3, 13:
		return d.turnDone(k, 3, what)
	case 4, 15:
		return d.turnDone(k, 0, what)
	case 5, 14:
		return d.turnDone(k, 7, 2)
	case 6:
		return d.do(CancelTurn{Run: k})
	case 7, 8:
		if err := d.do(ShutDown{}); err != nil {
			return err
		}
		if err := d.leave(what | 24); err != nil {
			return err
		}
		return d.crash(what)
	case 9:
		return d.crash(what)
	case 10, 11:
		if err := tick(d.opt.StepTimeout); err != nil {
			return err
		}
		return tick(d.opt.Grace)
	case 12:
		return d.do(&Stop{Run: k, Reason: "enough"})
	}
	return nil
}
