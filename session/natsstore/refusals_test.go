package natsstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// TestRightsThatAreMissing has users without a right that a Store needs: the error of what needs it
// names the subject, and no password.
func TestRightsThatAreMissing(t *testing.T) {
	t.Parallel()
	user := func(name string, denied ...string) *server.User {
		return &server.User{Username: name, Password: "secret", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: denied},
		}}
	}
	s := ownServer(t, func(o *server.Options) {
		o.Users = []*server.User{
			user("all"), user("api", "$JS.API.>"), user("docs", "x.docs.>"), user("log", "x.log.>"),
		}
	})
	open := func(user string) error {
		url := strings.Replace(s.ClientURL(), "nats://", "nats://"+user+":secret@", 1)
		store, err := natsstore.Open(t.Context(), url, natsstore.Options{
			Name: "x", Process: user, TrustSync: true, Timeout: 2 * time.Second,
			Lease: 6 * time.Second,
		})
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = store.Journal.Append(ctx, root, 0, entries("a", 1))
		return err
	}
	for user, subject := range map[string]string{
		"api": "$JS.API.", "docs": "x.docs.", "log": "x.log.",
	} {
		err := open(user)
		require.ErrorContains(t, err, `Permissions Violation for Publish to "`+subject, user)
		require.NotContains(t, err.Error(), "secret")
	}
	require.NoError(t, open("all"))
}
