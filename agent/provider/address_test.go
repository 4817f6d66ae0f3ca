package provider

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckBaseURL(t *testing.T) {
	for _, good := range []string{
		"http://localhost:11434/v1", "https://x.test", "https://x.test/", "HTTPS://X.test/a%20b",
		"http://[::1]:80/v1", "http://127.0.0.1:65535",
	} {
		require.NoError(t, CheckBaseURL(good), good)
	}
	for bad, why := range map[string]string{
		"": "not an absolute", "localhost:80": "not an absolute", "ftp://x.test": "not an absolute",
		"http://": "not an absolute", "http://:80/v1": "not an absolute", "/v1": "not an absolute",
		"http://x.test:99999/v1": "port", "http://x.test:0": "port",
		"http://x.test:http": "not an address", "http://user:hunter2@[bad": "not an address",
		"http://x.test/v1?key=hunter2": "a query", "http://x.test/v1?": "a query",
		"http://x.test/v1#hunter2": "a fragment", "http://x.test/v1#": "a fragment",
		"http://hunter2@x.test": "a user", "ftp://user:hunter2@x.test": "a user",
		"http://user:hunter2@x.test:99999": "a user", "http://@x.test": "a user",
	} {
		err := CheckBaseURL(bad)
		require.ErrorContains(t, err, why, bad)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestCheckKey(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "hunter2": "hunter2", "hunter2\n": "hunter2", " hunter2\r\n\n": "hunter2",
		"hunter 2": "hunter 2",
	} {
		got, err := CheckKey(in)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, bad := range []string{"hunter\n2", "hunter\r\nX: 2", "hunter\x002", "hunter\x7f2"} {
		got, err := CheckKey(bad)
		require.ErrorContains(t, err, "a line break or another control character behind byte 6")
		require.NotContains(t, err.Error(), "hunter")
		require.Empty(t, got)
	}
}
