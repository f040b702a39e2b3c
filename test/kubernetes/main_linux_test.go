package kubernetes

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// The variables that name what the tests need: the control plane (package controlplane) and the program of the pods
// (test/programs/steps of the repository).
const (
	controlPlaneVariable = "COPPICE_CONTROLPLANE"
	programVariable      = "COPPICE_PROGRAM"
	insideVariable       = "COPPICE_KUBERNETES_INSIDE"
)

// TestMain runs the tests in namespaces of their own: whatever they start ends with them, and they
// touch no other network.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(controlPlaneVariable) == "" || os.Getenv(programVariable) == "":
		fmt.Printf("SKIPPED: needs a control plane and a program, in %s and %s: run `make kubernetes`\n", controlPlaneVariable, programVariable)
		os.Exit(0)
	case os.Getuid() != 0:
		fmt.Println("SKIPPED: needs the right to make namespaces: be root")
		os.Exit(0)
	case os.Getenv(insideVariable) != "":
		os.Exit(m.Run())
	}
	cmd := exec.Command("unshare", append([]string{"--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc", os.Args[0]}, os.Args[1:]...)...)
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if exit, ok := err.(*exec.ExitError); ok {
		os.Exit(max(exit.ExitCode(), 1))
	} else if err != nil {
		fmt.Println("unshare:", err)
		os.Exit(1)
	}
}
