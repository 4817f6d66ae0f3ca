// Package pgserver runs a PostgreSQL of the machine for a test: each on a socket in a directory of
// its own, without a network, and with nothing left at the end.
//
//	New ── initdb ── Start ──▶ DSN
//	                   ▲  └─ Kill, Stop ─┐
//	                   └────────────────┘
//	Remove
package pgserver
