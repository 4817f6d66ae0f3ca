package dirstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// BenchmarkFindMember finds the tree of one member among n idle trees of four members. It is to
// cost the same for each n.
func BenchmarkFindMember(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := disktest.New()
			s, err := dirstore.OpenOn(d, "/")
			require.NoError(b, err)
			dirstore.SetSlack(s, 1<<40)
			text := func(tree, member int) string { return fmt.Sprint(tree, " ", member) }
			for i := range n {
				batch := batchOf(time.Time{}, false, "x")
				batch.Members = nil
				for m := range 4 {
					batch.Members = append(batch.Members, memberKey(text(i, m)))
				}
				_, err := s.Journal.Append(b.Context(), treeKey(i), 0, batch)
				require.NoError(b, err)
			}
			require.NoError(b, dirstore.Compact(s))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 7919) % n
				q := session.RootQuery{Member: memberKey(text(i, i%4))}
				for h, err := range s.Journal.Roots(b.Context(), q) {
					if err != nil || h.Root != treeKey(i) {
						b.Fatal(h, err)
					}
				}
			}
		})
	}
}
