package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// vetTool is the program that examines packages. It is a module of its own, with modules that the library does without.
const vetTool = "coppice-vet"

type vetCmd struct {
	Packages []string `arg:"" optional:"" name:"packages" help:"Packages, as go vet takes them (default .)."`
}

func (v *vetCmd) Run(c *console) error {
	path, err := exec.LookPath(vetTool)
	if err != nil {
		return fmt.Errorf("%s is not in PATH; install it: go install github.com/coppice-go/coppice/vet/cmd/%s@latest", vetTool, vetTool)
	}
	ctx, stop := untilSignal()
	defer stop()
	vet := exec.CommandContext(ctx, path, v.Packages...)
	vet.Stdin, vet.Stdout, vet.Stderr = os.Stdin, c.stdout, c.stderr
	err = interruptedOr(ctx, vet.Run())
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exitCode(exitFailed) // it has said why
	}
	return err
}
