// Command program is a process of a job that tests harm, and that meets through etcd (package test/program).
package main

import (
	"os"

	_ "github.com/coppice-go/coppice/etcd"
	"github.com/coppice-go/coppice/test/program"
)

func main() { os.Exit(program.Main(os.Args[1:])) }
