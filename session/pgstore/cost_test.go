package pgstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCostOfTrees has 10,000 trees that a process has and that are due, and 100,000 idle ones, of
// which it has had half. While two processes serve, look for orphans and take part in a lane, the
// server reads no more rows than it would without the trees, and writes one row a beat. It is asked
// for what each look asks, and nothing for a tree.
func TestCostOfTrees(t *testing.T) {
	const live, idle, lease = 10_000, 100_000, 3 * time.Second
	s := ownServer(t, "fsync=off")
	schema := freshSchema()
	a := s.open(t, memberOptions(schema, "a", lease))
	b := s.open(t, memberOptions(schema, "b", lease))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, store := range []*session.Store{a, b} {
		store.Owners.Lane("l", 1, session.LaneUser{})
		wg.Go(func() { assert.NoError(t, store.Owners.Serve(ctx, session.Member{})) })
		wg.Go(func() {
			for root, err := range store.Owners.Orphans(ctx) {
				assert.ErrorIs(t, err, context.Canceled, "%q", root)
			}
		})
	}
	claim, err := engine.Claim(ctx, a, root)
	require.NoError(t, err)
	s.query(t, fmt.Sprintf(`
		insert into %s.logs (root, last, due_sec, due_nsec, owner, epoch)
		select 'agent:main:t' || i, 1, case when i <= %d then 1 end, case when i <= %d then 0 end,
			case when i <= %d then %d end, case when i <= %d then i end
		from generate_series(1, %d) as i`, schema, live, live, live+idle/2, claim.Owner.Incarnation,
		live+idle/2, live+idle))
	s.query(t, `vacuum analyze `+schema+`.logs`)

	conn, err := pgx.Connect(t.Context(), s.DSN())
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	type counts struct{ logs, logWrites, beats, others, asked int64 }
	now := func() (c counts) {
		err := conn.QueryRow(t.Context(), `
			select
				coalesce(sum(read) filter (where relname = 'logs'), 0)::bigint,
				coalesce(sum(written) filter (where relname = 'logs'), 0)::bigint,
				coalesce(sum(written) filter (where relname = 'processes'), 0)::bigint,
				coalesce(sum(written)
					filter (where relname not in ('logs', 'processes')), 0)::bigint,
				(select xact_commit + xact_rollback from pg_stat_database
					where datname = current_database())
			from (
				select relname, seq_tup_read + coalesce(idx_tup_fetch, 0) as read,
					n_tup_ins + n_tup_upd + n_tup_del as written
				from pg_stat_user_tables where schemaname = $1
			) as counts`, schema).
			Scan(&c.logs, &c.logWrites, &c.beats, &c.others, &c.asked)
		require.NoError(t, err)
		return c
	}
	time.Sleep(2 * time.Second) // the server counts what it did a second ago
	before, begun := now(), time.Now()
	time.Sleep(2 * lease)
	after, took := now(), time.Since(begun)
	t.Logf("in %v: %d rows of logs read, %d beats; %.1f transactions a second", took,
		after.logs-before.logs, after.beats-before.beats,
		float64(after.asked-before.asked)/took.Seconds())
	looks := int64(took/(lease/10)) + 2
	assert.LessOrEqual(t, after.logs-before.logs, 2*3*looks, "two owners at most, each look")
	const late = 2 // counts of what was done before, which an idle connection tells late
	assert.LessOrEqual(t, after.logWrites-before.logWrites, int64(late))
	assert.LessOrEqual(t, after.others-before.others, int64(late))
	assert.Greater(t, after.beats, before.beats)
	const each = 4 // of a look: the clock, orphans, requests, lanes
	beats, own := int64(took/(lease/3))+2, 5*int64(took.Seconds())
	most := 2*(each*looks+beats) + own // own are those of the server for itself
	assert.LessOrEqual(t, after.asked-before.asked, most, "as often as without trees")
	assert.LessOrEqual(t, after.beats-before.beats, 2*(int64(took/(lease/3))+2))
}
