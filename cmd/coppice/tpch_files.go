package main

import (
	"errors"
	"fmt"

	"github.com/coppice-go/coppice/apps/tpch"
)

// openInput opens the files of the tables that a query needs.
func (c *tpchCmd) openInput(q tpch.Query) (*tpch.Files, error) {
	return tpch.OpenFiles(c.Input, q.Columns())
}

// prepare checks what is asked for, before anything starts, and returns more words for a process: files must be as they
// were when they were checked here.
func (c *tpchCmd) prepare() (words []string, err error) {
	q, err := c.question()
	if err != nil {
		return nil, err
	}
	var source tpch.Source = tpch.Generated(c.scale())
	from := fmt.Sprintf("scale %g", c.scale())
	if c.Input != "" {
		files, err := c.openInput(q)
		if err != nil {
			return nil, err
		}
		defer files.Close()
		source, from, words = files, c.Input, []string{"--mark", files.Mark}
	}
	return words, fits(fmt.Sprintf("tables of %s for query %d", from, c.Query), float64(source.Bytes(q.Columns())))
}

// source is where tables come from, and what to do with it at the end.
func (c *tpchProcessCmd) source(q tpch.Query) (s tpch.Source, end func() error, err error) {
	if c.Input == "" {
		return tpch.Generated(c.scale()), func() error { return nil }, nil
	}
	files, err := c.openInput(q)
	if err != nil {
		return nil, nil, err
	}
	if files.Mark != c.Mark {
		return nil, nil, errors.Join(fmt.Errorf("files of %s have changed since the job began", c.Input), files.Close())
	}
	return files, files.Close, nil
}

// refused tells what is wrong with the input, and returns it.
func (p *tpchProcess) refused(wrong error) error {
	if err := p.tell(tpchLine{Wrong: wrong.Error()}); err != nil {
		return err
	}
	return wrong
}
