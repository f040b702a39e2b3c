package launch

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-go/coppice/internal/control"
)

// Preview is what a plan would start.
type Preview struct {
	Processes []PreviewedProcess `json:"processes"`
}

// PreviewedProcess is a process that would be started.
type PreviewedProcess struct {
	Rank int      `json:"rank"`
	Host string   `json:"host,omitempty"` // "": here
	Dir  string   `json:"dir,omitempty"`  // "": where the launcher is
	Env  []string `json:"env"`            // beyond the launcher's own; without the values that the job draws
	Argv []string `json:"argv"`
}

// Preview returns what the plan would start. It contains no secret.
func (p *Plan) Preview() Preview {
	var v Preview
	for _, host := range p.shares {
		for local, rank := range host.Ranks {
			at := control.Place{Rank: rank, Size: p.N, Incarnation: firstIncarnation, Grow: p.Grow, LocalRank: local, LocalSize: len(host.Ranks)}
			vars := slices.DeleteFunc(at.Vars(), func(v string) bool {
				name, _, _ := strings.Cut(v, "=")
				return name == control.VarDir || name == control.VarJob
			})
			v.Processes = append(v.Processes, PreviewedProcess{
				Rank: rank, Host: host.Name, Dir: p.Dir,
				Env:  merge(p.Env, vars),
				Argv: append([]string{cmp.Or(p.path, p.Program)}, p.Args...),
			})
		}
	}
	return v
}

// Write prints the preview for people: a line a process, as a shell reads it.
func (v Preview) Write(w *bufio.Writer) {
	for _, p := range v.Processes {
		fmt.Fprintf(w, "[%d]", p.Rank)
		if p.Host != "" {
			fmt.Fprintf(w, " on %s:", p.Host)
		}
		if p.Dir != "" {
			fmt.Fprintf(w, " cd %s &&", quote(p.Dir))
		}
		for _, variable := range p.Env {
			name, value, _ := strings.Cut(variable, "=")
			fmt.Fprintf(w, " %s=%s", name, quote(value))
		}
		for _, arg := range p.Argv {
			fmt.Fprintf(w, " %s", quote(arg))
		}
		fmt.Fprintln(w)
	}
}

// quote quotes a word so that a shell reads it as one.
func quote(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
