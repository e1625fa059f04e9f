// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ringproof/ringproof"
	_ "github.com/ringproof/ringproof/internal/needs" // the seed, in CI
	"github.com/ringproof/ringproof/scenarios"
)

func TestShippedScenariosLintClean(t *testing.T) {
	shipped, err := scenarios.Shipped()
	require.NoError(t, err)
	require.NotEmpty(t, shipped)
	for _, s := range shipped {
		assert.Empty(t, s.Lint(nil).String())
		src, err := scenarios.ShippedSource(s.Name)
		require.NoError(t, err, "the file is named as the scenario")
		assert.True(t, bytes.HasPrefix(src, []byte("# ")), "%s opens with its story", s.Name)
		assert.NotEmpty(t, s.Description)
		assert.NotEmpty(t, s.Hypothesis)
	}
}

func TestScaffoldLintsClean(t *testing.T) {
	src, err := scenarios.New("my-first")
	require.NoError(t, err)
	s, found := scenarios.Parse("my-first.yaml", src)
	require.Empty(t, found.String())
	assert.Equal(t, "my-first", s.Name)
	assert.Empty(t, s.Lint(nil).String())
	_, err = scenarios.New("my first")
	assert.ErrorContains(t, err, `scenario name "my first"`)
}

func everyPlan(t *testing.T) []ringproof.Plan {
	shipped, err := scenarios.Shipped()
	require.NoError(t, err)
	var plans []ringproof.Plan
	for _, s := range shipped {
		world := "sim" // what is for it only is not applicable elsewhere
		if len(s.Worlds) > 0 && !slices.Contains(s.Worlds, world) {
			world = s.Worlds[0]
		}
		for _, cell := range s.Cells(7) {
			p, found := s.Resolve(cell, "reference", scenarios.Anywhere(world))
			require.Empty(t, found.String())
			plans = append(plans, p)
		}
	}
	return plans
}

func TestPlansSurviveWritingAndReading(t *testing.T) {
	for _, p := range everyPlan(t) {
		var b bytes.Buffer
		require.NoError(t, scenarios.WritePlan(&b, p))
		got, found := scenarios.ReadPlan("plan.yaml", b.Bytes())
		require.Empty(t, found.String(), b.String())
		assert.JSONEq(t, asJSON(t, p), asJSON(t, got))
		got, found = scenarios.ReadPlan("plan.json", []byte(asJSON(t, p)))
		require.Empty(t, found.String())
		assert.JSONEq(t, asJSON(t, p), asJSON(t, got))
	}
}

func asJSON(t *testing.T, p ringproof.Plan) string {
	text, err := json.MarshalIndent(p, "", "  ")
	require.NoError(t, err)
	return string(text)
}

func TestResolveIsDeterministicAndSane(t *testing.T) {
	first, second := everyPlan(t), everyPlan(t)
	assert.Equal(t, first, second)
	cells := map[string]bool{}
	for _, p := range first {
		assert.False(t, cells[p.Cell], "%s twice", p.Cell)
		cells[p.Cell] = true
		assert.NotEmpty(t, p.Invariants, p.Cell)
		estimate, most := scenarios.Estimate(p), 2*time.Minute
		if p.Ring.On == ringproof.OnKubernetes {
			most *= 2 // a kubelet waits minutes, and they are virtual
		}
		assert.True(t, estimate > 5*time.Second && estimate < most, "%s: %s", p.Cell, estimate)
	}
	assert.True(t, cells["create[etcd=v3.7.3,size=1]#7"])
	assert.True(t, cells["leader-killed#7"])
}

// The golden plan shows every default at once.
func TestGoldenPlan(t *testing.T) {
	shipped, err := scenarios.Shipped()
	require.NoError(t, err)
	for _, s := range shipped {
		if s.Name != "grow-3-to-5-volume-lost" {
			continue
		}
		p, _ := s.Resolve(s.Cells(17)[0], "reference", scenarios.Anywhere("local"))
		var b bytes.Buffer
		require.NoError(t, scenarios.WritePlan(&b, p))
		if os.Getenv("RINGPROOF_GOLDEN") != "" {
			require.NoError(t, os.WriteFile("testdata/plan.txt", b.Bytes(), 0o644))
		}
		want, err := os.ReadFile("testdata/plan.txt")
		require.NoError(t, err)
		assert.Equal(t, string(want), b.String())
		assert.Equal(t, 1.0, scenarios.FaultsPerOp(p))
	}
}

const drawn = `apiVersion: ringproof.dev/v1alpha1
kind: Scenario
metadata: {name: drawn}
spec:
  hypothesis: It holds.
  ring: {size: 5}
  steps:
  - {name: first, fault: {kill: {target: random}}}
  - {name: second, fault: {kill: {target: random}}}
  - {name: third, op: {restart: {target: random}}}
`

// Chance is keyed by the step's name: without the first step the others draw
// as before, and another seed draws otherwise.
func TestDrawsAreKeyed(t *testing.T) {
	whole, shorter := targetsOf(t, drawn, 3), targetsOf(t, strings.Replace(drawn, "  - {name: first, fault: {kill: {target: random}}}\n", "", 1), 3)
	assert.Equal(t, whole["second"], shorter["second"])
	assert.Equal(t, whole["third"], shorter["third"])
	seen := map[string]bool{}
	for seed := range uint64(50) {
		seen[targetsOf(t, drawn, seed)["first"]] = true
	}
	assert.Equal(t, map[string]bool{"leader": true, "follower/1": true, "follower/2": true, "follower/3": true, "follower/4": true}, seen)
}

const again = `apiVersion: ringproof.dev/v1alpha1
kind: Scenario
metadata: {name: again}
spec:
  hypothesis: It holds.
  ring: {size: 3}
  steps:
  - {name: grow, op: {scale: {to: 5}}, detach: true}
  - {name: flap, after: {event: member-added}, join: [grow], detach: true, fault: {partition: {target: follower, for: 2s}}, times: 3}
  - {name: crash, fault: {kill: {target: leader}}, times: 2, every: 5s}
  - {name: settle, join: [flap], assert: {within: 60s, ring: {voters: 5}}}
`

// Whoever waits for a fault that comes several times waits for the last.
func TestAFaultComesSeveralTimes(t *testing.T) {
	s, found := scenarios.Parse("again.yaml", []byte(again))
	require.Empty(t, found.String())
	p, found := s.Resolve(s.Cells(1)[0], "reference", scenarios.Anywhere("sim"))
	require.Empty(t, found.String())
	var steps []string
	for _, step := range p.Steps {
		after := ""
		if step.After != nil {
			after = strings.Join([]string{string(step.After.Event), step.After.Step, step.After.Delay.String()}, " ")
		}
		steps = append(steps, fmt.Sprintf("%s: %s, join %s, detach %v, at line %s", step.Name, after, step.Join, step.Detach, strings.TrimPrefix(step.Position, "again.yaml:")))
	}
	assert.Equal(t, []string{
		"grow: , join [], detach true, at line 8",
		"flap.1: member-added  0s, join [grow], detach false, at line 9",
		"flap.2: step-begun flap.1 3s, join [], detach false, at line 9",
		"flap: step-begun flap.2 3s, join [], detach true, at line 9",
		"crash.1: , join [], detach false, at line 10",
		"crash: step-begun crash.1 5s, join [], detach false, at line 10",
		"settle: , join [flap], detach false, at line 11",
	}, steps)
	var text bytes.Buffer
	require.NoError(t, scenarios.WritePlan(&text, p))
	_, found = scenarios.ReadPlan("plan.yaml", text.Bytes())
	require.False(t, found.Failed(), found.String())
}

func targetsOf(t *testing.T, src string, seed uint64) map[string]string {
	s, found := scenarios.Parse("drawn.yaml", []byte(src))
	require.Empty(t, found.String())
	p, found := s.Resolve(s.Cells(seed)[0], "reference", scenarios.Anywhere("sim"))
	require.Empty(t, found.String())
	targets := map[string]string{}
	for _, step := range p.Steps {
		if step.Fault != nil {
			targets[step.Name] = step.Fault.Target
		} else {
			targets[step.Name] = step.Op.Target
		}
	}
	return targets
}

func TestResolveKnowsItsCellsAndItsWorlds(t *testing.T) {
	shipped, err := scenarios.Shipped()
	require.NoError(t, err)
	for _, s := range shipped {
		_, found := s.Resolve(scenarios.Cell{Scenario: s.Name, Values: map[string]string{"x": "y"}}, "reference", scenarios.Anywhere("sim"))
		assert.Contains(t, found.String(), "has no cell")
		_, found = s.Resolve(s.Cells(1)[0], "reference", scenarios.Anywhere("kind"))
		if s.Name == "store-outage-during-replace" {
			assert.Equal(t, "the scenario is for sim, virtual, local, not for kind", found.Inapplicable())
			assert.NoError(t, found.Err())
		}
	}
}

func TestReadPlanRefuses(t *testing.T) {
	p := everyPlan(t)[0]
	p.Steps = []ringproof.Step{{Name: "a", Fault: &ringproof.Fault{Kind: "kill", Target: "random"}}, {Name: "b", Join: []string{"c"}, Op: &ringproof.Op{Kind: "scael"}}, {Name: "a"}}
	text := strings.Replace(asJSON(t, p), `"seed"`, `"sede"`, 1)
	_, found := scenarios.ReadPlan("plan.json", []byte(text))
	assert.Contains(t, found.String(), `error[S010]: unknown key "sede"; did you mean "seed"?`)
	_, found = scenarios.ReadPlan("plan.json", []byte(asJSON(t, p)))
	for _, want := range []string{
		"error[S051]: a plan holds no random target", `error[S041]: unknown step "c"`,
		`error[S013]: unknown operation "scael"; did you mean "scale"?`, "error[S027]", "error[S022]: a step has none",
	} {
		assert.Contains(t, found.String(), want)
	}
	_, found = scenarios.ReadPlan("plan.json", []byte("{}"))
	assert.Contains(t, found.String(), `a plan needs "cell"`)
}

func TestCellNamesRoundTrip(t *testing.T) {
	name := rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,12}`)
	rapid.Check(t, func(t *rapid.T) {
		c := scenarios.Cell{Scenario: name.Draw(t, "scenario"), Seeded: rapid.Bool().Draw(t, "seeded")}
		if values := rapid.MapOfN(name, name, 0, 4).Draw(t, "values"); len(values) > 0 {
			c.Values = values
		}
		if c.Seeded {
			c.Seed = rapid.Uint64().Draw(t, "seed")
		}
		got, err := scenarios.ParseCellName(c.String())
		require.NoError(t, err)
		assert.Equal(t, c, got)
		assert.True(t, c.Matches(scenarios.Cell{Scenario: c.Scenario}))
		assert.True(t, c.Matches(got))
	})
}

func TestCellNamesThatAreNone(t *testing.T) {
	for _, name := range []string{"", "#1", "a b", "a[", "a[x]", "a[x=]", "a[x=1,x=2]", "a#", "a#x", "a#-1", "a[x=1]y", "a[]"} {
		_, err := scenarios.ParseCellName(name)
		assert.ErrorContains(t, err, "write scenario, scenario[axis=value,…]", name)
	}
	cell, err := scenarios.ParseCellName("grow[etcd=v3.6.16,victim=leader]#5")
	require.NoError(t, err)
	assert.True(t, cell.Matches(scenarios.Cell{Scenario: "grow", Values: map[string]string{"victim": "leader"}}))
	assert.False(t, cell.Matches(scenarios.Cell{Scenario: "grow", Values: map[string]string{"victim": "follower"}}))
	assert.False(t, cell.Matches(scenarios.Cell{Scenario: "grow", Seed: 6, Seeded: true}))
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(drawn))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, found := scenarios.Parse("f.yaml", src)
		_ = found.String()
		if (s == nil) != found.Failed() {
			t.Fatalf("scenario %v with %v", s, found)
		}
		if s != nil {
			_ = s.Lint(nil).String()
		}
	})
}

func FuzzReadPlan(f *testing.F) {
	text, err := os.ReadFile("testdata/plan.txt")
	require.NoError(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, src []byte) {
		p, found := scenarios.ReadPlan("f.yaml", src)
		_ = found.String()
		if found.Failed() {
			return
		}
		var b bytes.Buffer
		require.NoError(t, scenarios.WritePlan(&b, p))
		_, found = scenarios.ReadPlan("again.yaml", b.Bytes())
		require.Empty(t, found.String(), b.String())
	})
}

// TestAPlanWithAPatternThatCannotBeRead accuses no subject of saying something else.
func TestAPlanWithAPatternThatCannotBeRead(t *testing.T) {
	text, err := os.ReadFile("testdata/plan.txt")
	require.NoError(t, err)
	for said, want := range map[string]string{`"no (quorum"`: "error[S060]: the pattern", `"no quorum"`: ""} {
		p, found := scenarios.ReadPlan("p.yaml", bytes.Replace(text, []byte("      hashKV: equal"), []byte("      hashKV: equal\n      said: "+said+"\n      left: []"), 1))
		if want != "" {
			require.Contains(t, found.String(), want)
			continue
		}
		require.Empty(t, found.String())
		var b bytes.Buffer
		require.NoError(t, scenarios.WritePlan(&b, p))
		require.Contains(t, b.String(), "left: []", "nobody is another claim than none")
	}
}

// TestShippedScenariosAssertTheirHypothesis: a hypothesis that nothing asserts is
// prose. Each says what the ring comes to, how long clients may wait at most, and
// how much the subject may change; the defaults of the checks are nobody's claim.
func TestShippedScenariosAssertTheirHypothesis(t *testing.T) {
	all, err := scenarios.Shipped()
	require.NoError(t, err)
	for _, s := range all {
		p, found := s.Resolve(s.Cells(1)[0], "reference", scenarios.Anywhere("sim"))
		require.NoError(t, found.Err())
		require.True(t, slices.ContainsFunc(p.Steps, func(s ringproof.Step) bool { return s.Assert != nil }), "%s asserts nothing", s.Name)
		if p.Mode != ringproof.ModeSafe {
			continue
		}
		params := map[string]map[string]string{}
		for _, i := range p.Invariants {
			params[i.Check] = i.Params
		}
		require.NotEmpty(t, params["available"]["maxGap"], "%s: give available a maxGap of its own", s.Name)
		require.NotEmpty(t, params["work-bounded"]["changes"], "%s: say in work-bounded how many changes it takes", s.Name)
		for _, c := range scenarios.Standard().Checks {
			if _, asked := params[c.Name]; c.Suits(p) {
				require.True(t, asked, "%s leaves out %s; begin its invariants with %s", s.Name, c.Name, scenarios.StandardChecks)
			}
		}
	}
}
