package main

import (
	"os"

	"github.com/coppice-go/coppice/apps/samplesort"
)

func init() { tools["othermark"] = otherMark }

// otherMark is a program of the scripts: the process of an application, DIR ARGS…, that reads all files of a directory. For the
// process of rank 1 they are not those that its launcher has seen.
func otherMark() {
	files, err := samplesort.OpenFiles(os.Args[1], samplesort.Layout{Size: 1, Key: 1})
	if err != nil {
		panic(err)
	}
	mark := files.Mark
	if os.Getenv("COPPICE_RANK") == "1" {
		mark = "another"
	}
	os.Args = append(append([]string{"coppice"}, os.Args[2:]...), "--input", os.Args[1], "--mark", mark)
	main()
}
