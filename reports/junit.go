// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"time"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"github.com/ringproof/ringproof"
)

// junitXML renders a suite for each scenario, in the order of the report, and
// a test case for each cell. JUnit has no word for inconclusive: it is an
// error there, as skipped would look like a pass.
func junitXML(r Report) ([]byte, error) {
	suites := junit.Testsuites{Name: "ringproof"}
	if r.Error != "" {
		suites.AddSuite(r.errorSuite())
	}
	for _, scenario := range r.scenarios() {
		suites.AddSuite(r.suite(scenario, len(suites.Suites)))
	}
	var total time.Duration
	for _, c := range r.Cells {
		total += wall(c.Measurements)
	}
	suites.Time = junitTime(total)
	out := bytes.NewBufferString(xml.Header)
	err := suites.WriteXML(out)
	return out.Bytes(), err
}

// scenarios lists the scenarios in the order in which their cells appear.
func (r Report) scenarios() []string {
	var names []string
	seen := map[string]bool{}
	for _, c := range r.Cells {
		if !seen[c.Scenario] {
			seen[c.Scenario] = true
			names = append(names, c.Scenario)
		}
	}
	return names
}

func (r Report) errorSuite() junit.Testsuite {
	suite := r.newSuite("ringproof", 0)
	suite.Time = junitTime(0)
	suite.AddTestcase(junit.Testcase{Name: "environment", Classname: "ringproof", Time: junitTime(0),
		Error: &junit.Result{Message: plain(r.Error), Type: "environment", Data: lines(r.Error)}})
	return suite
}

func (r Report) suite(scenario string, id int) junit.Testsuite {
	suite := r.newSuite(plain(scenario), id)
	var total time.Duration
	for _, c := range r.Cells {
		if c.Scenario == scenario {
			total += wall(c.Measurements)
			suite.AddTestcase(c.testcase())
		}
	}
	suite.Time = junitTime(total)
	return suite
}

func (r Report) newSuite(name string, id int) junit.Testsuite {
	suite := junit.Testsuite{Name: name, ID: id}
	if !r.Started.IsZero() {
		suite.SetTimestamp(r.Started.UTC())
	}
	suite.AddProperty("subject", plain(r.Subject))
	suite.AddProperty("world", plain(r.World))
	suite.AddProperty("ringproof", plain(r.Tools.Ringproof))
	suite.AddProperty("go", plain(r.Tools.Go))
	for _, release := range sortedNames(r.Tools.Etcd) {
		suite.AddProperty("etcd "+plain(release), plain(r.Tools.Etcd[release]))
	}
	return suite
}

func (c Cell) testcase() junit.Testcase {
	test := junit.Testcase{Name: plain(c.Name), Classname: plain(c.World + "." + c.Subject), Time: junitTime(wall(c.Measurements))}
	switch c.outcome() {
	case passed:
		test.SystemOut = &junit.Output{Data: c.figureLines()}
	case failed:
		test.Failure = c.result("fail")
	case flaky:
		if c.Verdict != ringproof.Pass {
			test.Error = c.result("flaky")
			break
		}
		test.SystemOut = &junit.Output{Data: lines("flaky\n"+strings.Join(c.attemptTexts(), "\n")) + "\n" + c.figureLines()}
	case notApplicable:
		test.Skipped = &junit.Result{Message: "not applicable: " + plain(c.NotApplicable)}
	case baseline:
		test.Skipped = &junit.Result{Message: "ran for comparison: " + c.Verdict.String()}
	case skipped:
		if c.Allowed {
			test.Skipped = &junit.Result{Message: "skipped: " + plain(c.Skipped)}
			break
		}
		test.Error = &junit.Result{Message: "skipped: " + plain(c.Skipped), Type: "inconclusive"}
	default:
		test.Error = c.result("inconclusive")
	}
	return test
}

// result holds every finding that is no pass; the first gives the message.
func (c Cell) result(kind string) *junit.Result {
	troubles := c.troubles()
	if len(troubles) == 0 {
		return &junit.Result{Message: "no check judged this cell", Type: kind, Data: c.figureLines()}
	}
	var b strings.Builder
	for _, f := range troubles {
		fmt.Fprintf(&b, "%s  %s%s: %s\n", f.Verdict, f.Check, atText(f), f.Message)
		for _, line := range f.Evidence {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	for _, text := range c.attemptTexts() {
		fmt.Fprintln(&b, text)
	}
	if c.Replay != "" {
		fmt.Fprintf(&b, "replay: %s\n", c.Replay)
	}
	first := troubles[0]
	return &junit.Result{Message: plain(first.Check + ": " + first.Message), Type: kind, Data: lines(b.String())}
}

func (c Cell) figureLines() string {
	var b strings.Builder
	for _, f := range c.Measurements.figures() {
		fmt.Fprintf(&b, "%-16s  %s  %s\n", f[0], f[1], f[2])
	}
	return lines(b.String())
}

// lines is plain for each line of a text.
func lines(s string) string {
	each := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i := range each {
		each[i] = strings.TrimRight(plain(each[i]), " ")
	}
	return strings.Join(each, "\n")
}

func junitTime(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
