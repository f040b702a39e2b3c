// Package store keeps what the tasks of a job save in files of a directory, so that a later run can
// resume the job after all its processes are gone.
//
//	DIR/job                which job the files are of, which run of it is the latest, whether it is finished
//	DIR/TASK/epoch-E       the state that a task saved as epoch E
//	DIR/TASK/epoch-E.A     the same, by a later attempt: the latest counts
//	DIR/TASK/epoch-E-KEY   a value that the task keeps in epoch E
//	DIR/TASK/found         what the task found when a run resumed the job
//
// A file exists as a whole or not at all: store writes it under another name, syncs it, renames it, and
// syncs the directory. Each file ends with a checksum of everything before. Store never takes one file
// for another: a caller that asks for an epoch gets that epoch, or an error that names the file.
//
// Other users may be able to write to the directory: store follows no link of another user, and reads
// nothing that another user has made, except root.
//
// A resumed job keeps its name; a run is one start of its processes.
package store
