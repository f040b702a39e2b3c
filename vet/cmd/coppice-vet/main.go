// Command coppice-vet reports what breaks the duties of programs for Coppice (docs/vet.md). It takes packages, as go vet
// does:
//
//	coppice-vet ./...
//
// and is a tool of go vet: go vet -vettool=$(which coppice-vet) ./...
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/coppice-go/coppice/vet"
)

func main() {
	if calledByGo(os.Args[1:]) {
		unitchecker.Main(vet.Analyzer) // does not return
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "coppice-vet: find this program for go vet:", err)
		os.Exit(1)
	}
	c := exec.Command("go", append([]string{"vet", "-vettool=" + self}, os.Args[1:]...)...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = c.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "coppice-vet: run go vet:", err)
		os.Exit(1)
	}
}

// calledByGo reports whether the arguments are those of go vet for its tool, or ask for the help of that.
func calledByGo(args []string) bool {
	if len(args) == 0 {
		return false
	}
	final := args[len(args)-1]
	return final == "-flags" || strings.HasPrefix(args[0], "-V=") || strings.HasSuffix(final, ".cfg") || args[0] == "help"
}
