package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
)

// startHogs keeps n processors busy until stop is called. A hog also ends with this
// process, whose end of its standard input is then closed.
func (ps *programs) startHogs(n int) (stop func(), err error) {
	var started []*exec.Cmd
	var inputs []io.Closer
	stop = func() {
		for i, cmd := range started {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
			_ = inputs[i].Close()
		}
	}
	if n > 0 && ps.hog.err != nil {
		return nil, ps.hog.err
	}
	for range n {
		cmd := exec.Command(ps.hog.path)
		input, err := cmd.StdinPipe()
		if err = errors.Join(err, cmd.Start()); err != nil {
			stop()
			return nil, fmt.Errorf("a hog does not start: %w", err)
		}
		started, inputs = append(started, cmd), append(inputs, input)
	}
	return stop, nil
}
