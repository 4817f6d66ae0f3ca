// Package tenure decides when a process of a cluster may act for the trees that it has claimed. It
// is pure: the caller tells it what session.Owners tells of the lease, and the time.
//
//	         Renewed                    the lease ends
//	Absent ----------> Acting ------------------------------> Paused
//	   ^                  ^                                     | |
//	   |                  |  Renewed: what was not taken goes on | |
//	   |                  +-------------------------------------+ |
//	   |                                                          |
//	   +------- MaxPause after the end of the lease: all is lost -+
package tenure
