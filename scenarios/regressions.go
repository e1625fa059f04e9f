// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/ringproof/ringproof"
)

//go:embed regressions/*.yaml
var regressions embed.FS

// Regression is a saved plan that showed a bug once, or came near to one. Its
// Expect says what it comes to today.
type Regression struct {
	Name string // of its file, without .yaml
	Plan ringproof.Plan
}

// Regressions returns the saved plans, by name. They are run in the simulated
// world by every go test ./...
func Regressions() ([]Regression, error) {
	entries, err := fs.ReadDir(regressions, "regressions")
	if err != nil {
		return nil, err
	}
	var all []Regression
	for _, e := range entries {
		file := path.Join("regressions", e.Name())
		text, err := regressions.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r := Regression{Name: strings.TrimSuffix(e.Name(), ".yaml")}
		plan, found := ReadPlan(file, text)
		if found.Failed() {
			return nil, fmt.Errorf("%s can't be run:\n%s", file, found)
		}
		if x := plan.Expect; x == nil || x.Verdict != ringproof.Pass.String() && x.Verdict != ringproof.Fail.String() {
			return nil, fmt.Errorf("%s doesn't say what to expect of it: add expect: {verdict: pass}, or fail and the check", file)
		}
		r.Plan = plan
		all = append(all, r)
	}
	return all, nil
}
