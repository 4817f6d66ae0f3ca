package announce_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

func TestNewDelivery(t *testing.T) {
	t.Parallel()
	c := completion()
	o := spawn.Delivery{
		Key: "k", Attempt: 2, Epoch: 7, MayRepeat: true, Completion: &c, To: mainKey, Blocked: start, Error: "offline",
	}
	d := announce.NewDelivery(o)
	require.Equal(t, announce.Delivery{
		Key: "k", Attempt: 2, Epoch: 7, MayRepeat: true, To: mainKey, Run: c.Run, Event: announce.NewEvent(c), Blocked: start, Error: "offline",
	}, d)
	require.Equal(t, "Go is a language.", d.ForPerson())

	o.Attempt, o.Epoch, o.MayRepeat = 3, 8, false
	require.Equal(t, d.ForModel(), announce.NewDelivery(o).ForModel(), "every attempt reads the same")

	require.Equal(t, announce.Delivery{Key: "k"}, announce.NewDelivery(spawn.Delivery{Key: "k"}))
}

func TestNewReply(t *testing.T) {
	t.Parallel()
	route := session.Route{Channel: "telegram", To: "42"}
	o := spawn.Delivery{
		Key: "k", Attempt: 1, Epoch: 7, To: mainKey, Blocked: start, Error: "offline",
		Reply: &spawn.Reply{From: childKey, Text: "<think>x</think>Hello\nNO_REPLY", Failed: true, Route: route},
	}
	require.Equal(t, announce.Reply{
		Key: "k", Attempt: 1, Epoch: 7, To: mainKey, From: childKey, Text: "Hello", Failed: true, Route: route, Blocked: start, Error: "offline",
	}, announce.NewReply(o))

	o.Reply.Text = "no_reply"
	require.Empty(t, announce.NewReply(o).Text)
	require.Equal(t, announce.Reply{Key: "k"}, announce.NewReply(spawn.Delivery{Key: "k"}))
}

func TestErrBusy(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, fmt.Errorf("chat 42: %w", announce.ErrBusy), announce.ErrBusy)
	require.ErrorIs(t, announce.ErrBusy, spawn.ErrBusy, "whoever uses spawn without agent defers as well")
}
