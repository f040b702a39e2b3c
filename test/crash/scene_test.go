package crash_test

import (
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/test/stage"
)

// reported are the settings of jobs whose survivors get errors.
var reported = stage.Settings{Recovery: coppice.Report}

// srunJobs numbers the jobs of srun, whose directories depend on their numbers, since jobs run side by
// side.
var srunJobs atomic.Int64

// srun starts the processes of a scene as srun would: with its variables.
func srun(t *testing.T, s stage.Scene) (stages []*stage.Stage, all []*exec.Cmd) {
	t.Helper()
	id := srunJobs.Add(1)
	for rank := range s.N {
		env := []string{
			fmt.Sprint("SLURM_JOB_ID=", id), "SLURM_STEP_ID=0", fmt.Sprint("SLURM_PROCID=", rank), fmt.Sprint("SLURM_NTASKS=", s.N),
			fmt.Sprint("SLURM_LOCALID=", rank), "SLURM_STEP_NUM_NODES=1",
			control.VarTrace + "=", // a trace is of a job, not of a process
		}
		g, cmd := s.Started(t, exec.Command(os.Args[0]), env)
		all, stages = append(all, cmd), append(stages, g)
	}
	return stages, all
}

// needs skips a test if a command is missing.
func needs(t testing.TB, command, how string) string {
	t.Helper()
	path, err := exec.LookPath(command)
	if err != nil {
		t.Skipf("%s is not installed: %s", command, how)
	}
	return path
}
