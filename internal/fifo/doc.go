// Package fifo has queues whose entries are linked by a part of their own, so that none of them
// allocates when an entry comes or goes.
//
//	Queue ── first ──▶ entry ── Link ──▶ entry ── Link ──▶ entry ◀── last
package fifo
