// Package spool keeps what a detached job writes and how it ended, until somebody asks for it.
//
// Every job has a directory of its own below Root, which belongs to the user alone:
//
//	about       what the job is; JSON
//	keeper      locked by the job's keeper for as long as that lives; its process id
//	spool.N     what was written from byte N of the spool on
//	result      how the job ended; JSON
//	seen        how far the output was shown; JSON
//	attached    locked by who shows it; its process id
//	log         what the keeper itself wrote, if it crashed
//
// The keeper is the process that outlives whoever has started the job: the launcher in the background, or the agent on
// another host. A job of other hosts has a directory without a keeper on the host that it was started from.
//
//  1. The spool is a sequence of records. Each is written by one call of the system; one that is not whole is
//     not there yet. The output of a keeper that was killed ends with its last whole record.
//  2. The spool is bounded: when it is full, its oldest file is removed. Positions count from the
//     beginning, so a reader knows how much it has missed.
//  3. The result is there as a whole or not at all, and after the last record. A job without a result whose keeper
//     does not hold its lock was killed.
package spool
