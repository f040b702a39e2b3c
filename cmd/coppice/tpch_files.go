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

// inputWords are more words for a process: files must be as they were when they were checked here.
func (c *tpchCmd) inputWords(q tpch.Query) ([]string, error) {
	if c.Input == "" {
		return nil, nil
	}
	files, err := c.openInput(q)
	if err != nil {
		return nil, err
	}
	return []string{"--mark", files.Mark}, files.Close()
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
		return nil, nil, errors.Join(fmt.Errorf("files of %s have changed", c.Input), files.Close())
	}
	return files, files.Close, nil
}

// refused tells what is wrong with the input, and returns an error that nobody prints again.
func (p *tpchProcess) refused(wrong error) error {
	if err := p.tell(tpchLine{Wrong: wrong.Error()}); err != nil {
		return err
	}
	return told{wrong}
}
