package experiment

import (
	"bytes"
	"embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	html "html/template"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	markdown "text/template"
	"time"
)

// Keep writes a finding's files into a directory: NAME.json with everything, NAME.csv with its first table
// and NAME-TABLE.csv with the others, NAME.svg. A skipped finding never replaces one that was not skipped.
func (f *Finding) Keep(dir string) error {
	if before, err := kept(dir, f.Name); f.Skipped != "" && err == nil && before.Skipped == "" {
		return nil
	}
	whole, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, f.Name+".json"), whole); err != nil {
		return err
	}
	for _, t := range f.Tables {
		var out bytes.Buffer
		if err := csv.NewWriter(&out).WriteAll(append([][]string{t.Columns}, t.Rows...)); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, f.File(t)), out.Bytes()); err != nil {
			return err
		}
	}
	if f.Chart == nil {
		return nil
	}
	picture, err := f.Picture()
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, f.Name+".svg"), []byte(picture))
}

// File returns the name of a table's file.
func (f *Finding) File(t *Table) string {
	if t.Name == "" {
		return f.Name + ".csv"
	}
	return f.Name + "-" + t.Name + ".csv"
}

// page is what the templates of both packages implement.
type page interface {
	Execute(w io.Writer, findings any) error
}

//go:embed report.md.tmpl report.html.tmpl
var templates embed.FS

// reports maps the names of files to their pages over all findings.
var reports = map[string]page{
	"report.md": markdown.Must(markdown.New("report.md.tmpl").Funcs(markdown.FuncMap{
		"cell": func(c string) string { return strings.ReplaceAll(c, "|", `\|`) },
	}).ParseFS(templates, "report.md.tmpl")),
	"report.html": html.Must(html.ParseFS(templates, "report.html.tmpl")),
}

// Report writes report.md and report.html over all findings in a directory, in the order of the papers.
func Report(dir string) error {
	var findings []*Finding
	for _, e := range All() {
		f, err := kept(dir, e.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		findings = append(findings, f)
	}
	for name, p := range reports {
		var out bytes.Buffer
		if err := p.Execute(&out, findings); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, name), out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func kept(dir, name string) (*Finding, error) {
	f := new(Finding)
	err := readJSON(filepath.Join(dir, name+".json"), f, func() error {
		switch {
		case f.Name != name:
			return fmt.Errorf("it is not about %s", name)
		case f.Chart != nil:
			return f.Chart.Check()
		}
		return nil
	})
	return f, err
}

// Score returns the number of claims by verdict.
func (f *Finding) Score() string {
	count := map[Verdict]int{}
	for _, c := range f.Claims {
		count[c.Verdict]++
	}
	var parts []string
	for _, v := range []Verdict{Equal, Agrees, Differs} {
		if count[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[v], v))
		}
	}
	return strings.Join(parts, ", ")
}

// How returns how the finding was made.
func (f *Finding) How() string {
	if f.Measured {
		return "Measured"
	}
	return "Simulated"
}

// Took returns how long the simulations or launches took.
func (f *Finding) Took() string {
	return time.Duration(f.Seconds * float64(time.Second)).Round(100 * time.Millisecond).String()
}

// Shown returns the tables that are short enough for the report.
func (f *Finding) Shown() []*Table {
	const rows = 40
	return slices.DeleteFunc(slices.Clone(f.Tables), func(t *Table) bool { return len(t.Rows) > rows })
}

// Picture returns the drawn chart, with its texts escaped, or nothing if there is no chart.
func (f *Finding) Picture() (html.HTML, error) {
	if f.Chart == nil {
		return "", nil
	}
	var out strings.Builder
	err := f.Chart.Write(&out)
	return html.HTML(out.String()), err
}
