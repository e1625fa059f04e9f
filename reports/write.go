// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ringproof/ringproof"
)

// The files of a report.
const (
	ResultFile  = "result.json"
	JUnitFile   = "junit.xml"
	PageFile    = "index.html"
	SummaryFile = "summary.md"
)

// Prepare makes the directory of a report. It refuses one that holds files and no
// report: what somebody else wrote is not to be replaced.
func Prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("preparing the report: %w", err)
	}
	for _, file := range []string{JUnitFile, SummaryFile, PageFile} {
		_, err := os.Stat(filepath.Join(dir, file))
		if _, ours := os.Stat(filepath.Join(dir, ResultFile)); err == nil && ours != nil {
			return fmt.Errorf("%s has %s and no %s: it is no report of ringproof; name another directory with --out, or remove the file", dir, file, ResultFile)
		}
	}
	return nil
}

// Write saves the report into dir, which it makes if need be. Each file is
// replaced whole or not at all. result.json comes first: a drawing that fails
// doesn't take the verdict with it.
func Write(dir string, r Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	var failures []error
	for _, file := range []struct {
		name   string
		render func(Report) ([]byte, error)
	}{{ResultFile, result}, {JUnitFile, junitXML}, {SummaryFile, summary}, {PageFile, page}} {
		text, err := file.render(r)
		if err == nil {
			err = replace(filepath.Join(dir, file.name), text)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("writing report: %s: %w", file.name, err))
		}
	}
	return errors.Join(failures...)
}

// replace writes a file beside the old one and puts it in its place.
func replace(path string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // gone already when all went well
	_, err = file.Write(text)
	if err := errors.Join(err, file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// Read reads the result.json in dir. The cells come without their histories;
// see Cell.Load.
func Read(dir string) (Report, error) {
	path := filepath.Join(dir, ResultFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return Report{}, fmt.Errorf("reading report: %w", err)
	}
	var saved savedReport
	if err := json.Unmarshal(text, &saved); err != nil {
		return Report{}, fmt.Errorf("reading report: %s: %w", path, err)
	}
	if saved.Format != reportFormat {
		return Report{}, fmt.Errorf("reading report: %s: format %q, not %q; was it written by this ringproof?", path, saved.Format, reportFormat)
	}
	return saved.report(), nil
}

const reportFormat = "ringproof-report/v1"

// savedReport is result.json. What it adds to Report comes first, for a reader.
type savedReport struct {
	Format  string            `json:"format"`
	Verdict ringproof.Verdict `json:"verdict"`
	Counts  Counts            `json:"counts"`
	Report
	Cells []savedCell `json:"cells"`
}

type savedCell struct {
	Cell
	Findings []savedFinding `json:"findings"`
	Budget   []savedBudget  `json:"budget,omitempty"`
}

// savedFinding is a finding with its moment in seconds.
type savedFinding struct {
	Check    string            `json:"check"`
	Verdict  ringproof.Verdict `json:"verdict"`
	Message  string            `json:"message"`
	At       *float64          `json:"at,omitempty"`
	Evidence []string          `json:"evidence,omitempty"`
	Attached string            `json:"attached,omitempty"`
}

// savedBudget is a line of the ledger's timeline with its moment in seconds.
type savedBudget struct {
	At   float64 `json:"at"`
	What string  `json:"what"`
	Used int     `json:"used"`
	Left int     `json:"left"`
}

func result(r Report) ([]byte, error) {
	saved := savedReport{Format: reportFormat, Verdict: r.Verdict(), Counts: r.Counts(), Report: r, Cells: []savedCell{}}
	for _, c := range r.Cells {
		one := savedCell{Cell: c, Findings: []savedFinding{}}
		for _, f := range c.Findings {
			one.Findings = append(one.Findings, saveFinding(f))
		}
		for _, b := range c.Budget {
			one.Budget = append(one.Budget, savedBudget{round(b.At.Seconds(), 9), b.What, b.Used, b.Left})
		}
		saved.Cells = append(saved.Cells, one)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(saved)
	return out.Bytes(), err
}

func saveFinding(f ringproof.Finding) savedFinding {
	saved := savedFinding{f.Check, f.Verdict, f.Message, nil, f.Evidence, f.Attached}
	if f.At != nil {
		saved.At = figure(f.At.Seconds())
	}
	return saved
}

func (s savedReport) report() Report {
	r := s.Report
	for _, c := range s.Cells {
		cell := c.Cell
		for _, f := range c.Findings {
			cell.Findings = append(cell.Findings, f.finding())
		}
		for _, b := range c.Budget {
			cell.Budget = append(cell.Budget, ringproof.Budget{At: moment(b.At), What: b.What, Used: b.Used, Left: b.Left})
		}
		r.Cells = append(r.Cells, cell)
	}
	return r
}

func (s savedFinding) finding() ringproof.Finding {
	f := ringproof.Finding{Check: s.Check, Verdict: s.Verdict, Message: s.Message, Evidence: s.Evidence, Attached: s.Attached}
	if s.At != nil {
		at := moment(*s.At)
		f.At = &at
	}
	return f
}

func moment(seconds float64) ringproof.Instant {
	return ringproof.Instant(round(seconds*float64(time.Second), 0))
}
