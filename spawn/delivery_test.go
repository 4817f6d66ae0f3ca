package spawn_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

func TestDeliveryJSON(t *testing.T) {
	d := spawn.Delivery{
		Key:       "k",
		Attempt:   2,
		Epoch:     7,
		MayRepeat: true,
		To:        topKey,
		Error:     "offline",
		Reply: &spawn.Reply{
			From:   topKey,
			Text:   "Hello",
			Failed: true,
			Route:  session.Route{Channel: "telegram"},
		},
	}
	data, err := json.Marshal(d)
	require.NoError(t, err)
	require.JSONEq(
		t,
		`{"key":"k","attempt":2,"epoch":7,"mayRepeat":true,"to":"agent:main:main","error":"offline",
		"reply":{"from":"agent:main:main","text":"Hello","failed":true,"route":{"channel":"telegram"}}}`,
		string(data),
	)
	var back spawn.Delivery
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, d, back)

	d = spawn.Delivery{
		Key:        "k",
		Attempt:    1,
		Epoch:      7,
		To:         topKey,
		Completion: &spawn.Completion{Nonce: "n", Requester: topKey},
	}
	data, err = json.Marshal(d)
	require.NoError(t, err)
	require.NotContains(t, string(data), "mayRepeat")
	require.NotContains(t, string(data), "reply")
}
