// Package store keeps what the tasks of a job save in files of a directory, so that the
// job can be taken up again when all its processes are gone.
//
//	DIR/job                which job the files are of, which run of it is the latest, whether it is finished
//	DIR/TASK/epoch-E       the state that a task saved as epoch E
//	DIR/TASK/epoch-E.A     the same, by a later attempt: the latest counts
//	DIR/TASK/epoch-E-KEY   a value that the task keeps in epoch E
//	DIR/TASK/found         what the task found when the job was taken up again
//
// A file is there as a whole or not at all: it is written under another name, synced and
// then renamed, and the directory is synced. Each ends with a checksum of all before.
// Nothing here ever takes one file for another: who asks for an epoch gets that one, or
// an error that names the file.
//
// A directory may be one that others can write to: no link of another user is followed, and
// nothing is read that another user has made, but for root.
//
// A job keeps its name when it is taken up again; a run is one start of its processes.
package store
