package pgstore_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// No error of Open has a password of the connection string, however that is spelled.
func TestOpenNamesNoPassword(t *testing.T) {
	const canary = "CanaryS3cret"
	const rest = " host=127.0.0.1 port=1 connect_timeout=1"
	for _, dsn := range []string{
		"password = " + canary + " bogus", "password = " + canary + " port=x",
		"password=" + canary + " sslmode=odd", "Password=" + canary + " port=x",
		"PASSWORD=" + canary + rest, "pass word=" + canary + rest, canary,
		"password='" + canary + " host=x", "password=a\\ " + canary + " port=x", canary + "=x port=y",
		"password = 'a " + canary + "'" + rest, "password=" + canary + rest,
		"host=127.0.0.1 port=" + canary, "sslmode=" + canary, "sslpassword = " + canary + " port=x",
		"postgres://bot:" + canary + "@127.0.0.1:1/bot", "postgres://bot:x/" + canary + "@127.0.0.1/b",
		"postgres://bot:x#" + canary + "@127.0.0.1/b", "postgres://bot:x?" + canary + "@127.0.0.1/b",
		"postgres://bot:x%" + canary + "@127.0.0.1/b", "postgres://bot:x " + canary + "@127.0.0.1/b",
		"postgres://bot:" + canary + "@127.0.0.1:port/b", "postgres://127.0.0.1:1/b?password=" + canary,
		"postgres://127.0.0.1:p/b?Password=" + canary, "Postgres://bot:" + canary + "@127.0.0.1:1/b",
		"postgres:/bot:" + canary + "@127.0.0.1:1/b", "postgres://bot:" + canary,
	} {
		t.Setenv("PGHOST", "127.0.0.1")
		t.Setenv("PGPORT", "1")
		_, err := pgstore.Open(t.Context(), dsn, pgstore.Options{})
		require.Error(t, err, "%q", dsn)
		assert.NotContains(t, err.Error(), canary, "%q", dsn)
	}
	_, err := pgstore.Open(t.Context(), "postgres://bot:x/y@db.example/b", pgstore.Options{})
	require.ErrorContains(t, err, "db.example", "it says where")
	_, err = pgstore.Open(t.Context(), "host=h sslmode=odd", pgstore.Options{})
	require.ErrorContains(t, err, "sslmode is invalid", "it says what")
}
