package mask_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/internal/mask"
)

// No address shows its credentials, whether it parses or not.
func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		"nats://h:4222":                         "nats://h:4222",
		"h:4222, nats://k":                      "h:4222,nats://k",
		"nats://[::1]:4222":                     "nats://[::1]:4222",
		"http://h:8222/base":                    "http://h:8222/base",
		"nats://bot:Canary@h:4222":              "nats://***@h:4222",
		"nats://Canary@h":                       "nats://***@h",
		"bot:Canary@h":                          "***@h",
		"nats://bot:x/Canary@h":                 "nats://***@h",
		"nats://bot:x#Canary@h":                 "nats://***@h",
		"nats://bot:x?Canary@h":                 "nats://***@h",
		"nats://bot:x%Canary@h":                 "nats://***@h",
		"nats://bot:x Canary@h":                 "nats://***@h",
		"nats://bot:x@Canary@h":                 "nats://***@h",
		"nats://bot:x,Canary@h":                 "nats://***@h",
		"nats://bot:12,Canary@h,k":              "nats://***@h,k",
		"nats://bot:Canary":                     "nats://bot:***",
		"nats://bot:Canary/":                    "nats://bot:***",
		"http://h?token=Canary":                 "http://h?***",
		"http://h:8222/?token=Canary":           "http://h:8222/?***",
		"http://h#Canary":                       "http://h#***",
		"http://a:Canary@h?token=Canary":        "http://***@h?***",
		"nats://a:Canary@h,nats://b:Canary@k:1": "nats://***@h,nats://***@k:1",
		"password=Canary://h":                   "***://h",
		"":                                      "",
		"nats://h\x1b[2J":                       "nats://h?[2J",
	} {
		have := mask.Address(text)
		assert.Equal(t, want, have, "%q", text)
		assert.NotContains(t, have, "Canary", "%q", text)
	}
}

func TestCheck(t *testing.T) {
	for _, text := range []string{
		"nats://h:4222", "h:4222, k", "", "nats://bot:%2F%23@h", "http://h/?token=x", "nats://[::1]:1",
	} {
		require.NoError(t, mask.Check(text), "%q", text)
	}
	for _, text := range []string{
		"nats://bot:x/y@h", "nats://bot:1/y@h", "nats://bot:1#y@h", "nats://bot:1?y@h", "nats://bot:x",
		"nats://bot:%@h", "nats://a b@h", "nats://h:port", "k,nats://bot:x/y@h",
	} {
		require.ErrorIs(t, mask.Check(text), mask.ErrAddress, "%q", text)
	}
}

func TestError(t *testing.T) {
	err := errors.New("bad port 12 in `host=h Password = Canary`")
	require.Equal(t, err, mask.Error(err, "pass=other"))
	for _, secret := range []string{"Canary", "x Canary", "x=Canary,y", "port"} {
		require.NotContains(t, mask.Error(err, secret).Error(), "Canary")
	}
	require.Equal(t, err, mask.Error(err, "port", "port"))
}

// People read these errors behind the name of the package that they use.
func TestErrorsDoNotNameThePackage(t *testing.T) {
	require.NotContains(t, mask.Check("nats://a b@c d").Error(), "mask")
	hidden := mask.Error(errors.New("port Canary is wrong"), "Canary")
	require.NotContains(t, hidden.Error(), "mask")
	require.NotContains(t, hidden.Error(), "Canary")
}
