// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package faults_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringproof/ringproof/faults"
)

func TestRegisterRefusesWhatIsHalf(t *testing.T) {
	whole := faults.Entry{Kind: "nap", Doc: "it sleeps", Fairness: "always", Heals: "it wakes", Worlds: []string{"toy"}}
	for want, change := range map[string]func(*faults.Entry){
		`fault "kill" refused: the catalogue has one`:                                  func(e *faults.Entry) { e.Kind = "kill" },
		`fault "nap" refused: its entry lacks its doc`:                                 func(e *faults.Entry) { e.Doc = "" },
		`fault "nap" refused: its entry lacks its fairness`:                            func(e *faults.Entry) { e.Fairness = "" },
		`fault "nap" refused: its entry names no world that can do it`:                 func(e *faults.Entry) { e.Worlds = nil },
		`fault "nap" refused: a target, and the forms that it may have, come together`: func(e *faults.Entry) { e.Targets = []string{"leader"} },
		`fault "nap" refused: parameter "x" lacks its name or doc, or there are two`: func(e *faults.Entry) {
			e.Params = faults.Params{{Name: "x"}}
		},
		`fault "nap" refused: parameter "x" is a mapping, which only flags can be`: func(e *faults.Entry) {
			e.Params = faults.Params{{Name: "x", Doc: "x", Type: faults.TypeFlags}}
		},
	} {
		e := whole
		change(&e)
		assert.EqualError(t, faults.Register(e), want)
	}
	assert.EqualError(t, faults.RegisterOperation(faults.Operation{Kind: "scale"}), `operation "scale" refused: the catalogue has one`)
	assert.ErrorContains(t, faults.RegisterOperation(faults.Operation{Kind: "greet", Doc: "say a word", Worlds: []string{"toy"}}), "lacks its rule of what is owed")
	_, there := faults.Lookup("nap")
	assert.False(t, there, "what was refused is not in the catalogue")
}

func TestOperationsAreWhole(t *testing.T) {
	for _, o := range faults.Operations() {
		assert.NotEmpty(t, o.Doc, o.Kind)
		assert.NotEmpty(t, o.Owes, o.Kind)
		assert.NotEmpty(t, o.Worlds, o.Kind)
		assert.NotNil(t, o.Sentence, o.Kind)
		_, takes := o.Params.Find("target")
		assert.Equal(t, takes, len(o.Targets) > 0, o.Kind)
	}
}
