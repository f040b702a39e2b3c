// Package spool keeps the output of a detached job and how it ended, until somebody asks for it.
//
// Every job has its own directory below Root, which only the user may access:
//
//	about       what the job is; JSON
//	keeper      locked by the job's keeper while it lives; its process id
//	spool.N     the output from byte N of the spool on
//	result      how the job ended; JSON
//	reserve     room for the result, while the job runs
//	seen        how much of the output was shown; JSON
//	attached    locked by the process that shows the output; its process id
//	log         what the keeper itself wrote, if it crashed
//
// The keeper is the process that outlives the command that started the job: the launcher in the background, or the agent on
// another host. On the host that started a job of other hosts, the job has a directory without a keeper.
//
//  1. The spool is a sequence of records. Each is written by one system call; an incomplete record
//     does not count. The output of a killed keeper ends with its last complete record.
//  2. The spool is bounded: when it is full, its oldest file is removed. Positions count from the
//     beginning, so a reader knows how much it has missed. What cannot be written, since the disk is full, is dropped, and a line says so.
//  3. The result is complete or absent, and is written after the last record. A job without a result whose keeper
//     does not hold its lock was killed.
package spool
