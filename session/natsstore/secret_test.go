package natsstore_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// canary is a password that no text may have.
const canary = "CanaryS3cret"

// No error of Open has a credential of the address, whether that parses or not, and it names the
// host where that can be told from the rest.
func TestOpenNamesNoCredential(t *testing.T) {
	const host = "127.0.0.1:1" // where nothing listens
	for _, url := range []string{
		"nats://bot:" + canary + "@" + host, "nats://" + canary + "@" + host,
		"tls://bot:" + canary + "@" + host, "bot:" + canary + "@" + host, canary + "@" + host,
		"nats://bot:x/" + canary + "@" + host, "nats://bot:1/" + canary + "@" + host,
		"nats://bot:x#" + canary + "@" + host, "nats://bot:x?" + canary + "@" + host,
		"nats://bot:x%" + canary + "@" + host, "nats://bot:x " + canary + "@" + host,
		"nats://bot:x@" + canary + "@" + host, "nats://bot:x\n" + canary + "@" + host,
		"nats://bot:x," + canary + "@" + host, "nats://bot:" + canary + "@" + host + "0000000",
		"nats://bot:" + canary + "@127.0.0.1:port", "nats://bot:" + canary + "@[127.0.0.1:1",
		"nats://bot:" + canary + "@" + host + ",nats://b:x/" + canary + "@127.0.0.1:2",
		"nats://" + host + "/?token=" + canary, "nats://bot:" + canary,
	} {
		store, err := natsstore.Open(t.Context(), url, natsstore.Options{
			TrustSync: true, Timeout: time.Second,
		})
		if err == nil {
			require.NoError(t, store.Close())
		}
		require.Error(t, err, "%q", url)
		assert.NotContains(t, err.Error(), canary, "%q", url)
		if strings.Contains(url, "127.0.0.1") {
			assert.Contains(t, err.Error(), "127.0.0.1", "%q", url)
		}
	}
}

// No error on a server's settings has a credential of its monitoring address, and it names the
// host.
func TestMonitorNamesNoCredential(t *testing.T) {
	var answer atomic.Value // of http.HandlerFunc
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer.Load().(http.HandlerFunc)(w, r)
	}))
	t.Cleanup(page.Close)
	host := strings.TrimPrefix(page.URL, "http://")
	page401 := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}
	text := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	answers := map[string]http.HandlerFunc{
		"status": page401, "text": text("<html>"), "off": text("{}"),
		"interval": text(`{"jetstream":{"config":{"sync_interval":1}}}`),
		"loop": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.String(), http.StatusFound)
		},
		"odd place": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://%"+r.URL.RawQuery)
			w.WriteHeader(http.StatusFound)
		},
		"cut": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	for name, failure := range answers {
		answer.Store(failure)
		for _, address := range []string{
			"http://mon:" + canary + "@" + host, "http://" + canary + "@" + host + "/",
			"http://" + host + "?token=" + canary, "http://" + host + "/?token=" + canary,
			"http://mon:" + canary + "@" + host + "/base?token=" + canary,
			"http://mon:" + canary + "@127.0.0.1:1", "http://mon:x/" + canary + "@" + host,
			"http://mon:1/" + canary + "@" + host, "http://mon:%" + canary + "@" + host,
			"http://mon:x " + canary + "@" + host, "mon:" + canary + "@" + host,
			"http://mon:" + canary + "@127.0.0.1:port",
		} {
			_, err := natsstore.Open(t.Context(), theServer(t).ClientURL(), natsstore.Options{
				Name: "unused", Monitor: []string{address}, Timeout: 5 * time.Second,
			})
			require.Error(t, err, "%s %q", name, address)
			assert.NotContains(t, err.Error(), canary, "%s %q", name, address)
			assert.Contains(t, err.Error(), "127.0.0.1", "%s %q", name, address)
		}
	}
}

// The monitoring address may have a user and a token, which are sent.
func TestMonitorTakesCredentials(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "mon" || password != canary || r.FormValue("token") != "x" ||
			r.URL.Path != "/base/varz" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"jetstream":{"config":{"sync_always":true}}}`))
	}))
	t.Cleanup(page.Close)
	host := strings.TrimPrefix(page.URL, "http://")
	open(t, theServer(t), natsstore.Options{
		Monitor: []string{"http://mon:" + canary + "@" + host + "/base/?token=x"},
	})
}
