// Package pgstoretest runs the PostgreSQL of the machine for a test of a bot: each server on a
// socket in a directory of its own, without a network, and with nothing left at the end. It can be
// killed and started again with the data that it had.
//
//	New ── initdb ── Start ──▶ DSN
//	                   ▲  └─ Kill, Stop ─┐
//	                   └─────────────────┘
//	Remove
package pgstoretest
