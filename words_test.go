// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
)

// TestWhateverAStepHasIsPrinted: "kube-delete of m2" left out of a report whether the pod or the
// volume was deleted. Each field is set by itself.
func TestWhateverAStepHasIsPrinted(t *testing.T) {
	quiet := []string{"Kind", "Timeout"} // what a step is; and how long it is waited for, which When says of it
	for _, of := range []func() (fmt.Stringer, reflect.Value){
		func() (fmt.Stringer, reflect.Value) {
			f := &ringproof.Fault{Kind: "fault", Action: "act"}
			return f, reflect.ValueOf(f).Elem()
		},
		func() (fmt.Stringer, reflect.Value) {
			o := &ringproof.Op{Kind: "op"}
			return o, reflect.ValueOf(o).Elem()
		},
		func() (fmt.Stringer, reflect.Value) {
			a := &ringproof.Trigger{Event: "event"}
			return a, reflect.ValueOf(a).Elem()
		},
	} {
		plain, value := of()
		before := plain.String()
		for i := range value.NumField() {
			field := value.Type().Field(i)
			if slices.Contains(quiet, field.Name) {
				continue
			}
			printed, value := of()
			switch field := value.Field(i); field.Kind() {
			case reflect.String:
				field.SetString("something")
			case reflect.Bool:
				field.SetBool(true)
			case reflect.Int, reflect.Int64:
				field.SetInt(7)
			case reflect.Map:
				field.Set(reflect.ValueOf(map[string]string{"a": "b"}))
			default:
				require.Fail(t, "a kind of field that this test sets nothing in", "%s of %T", field.Kind(), plain)
			}
			assert.NotEqual(t, before, printed.String(), "%T prints nothing of its %s", plain, field.Name)
		}
	}
}

func TestStepsPrintThemselves(t *testing.T) {
	const second = ringproof.Duration(1e9)
	for want, value := range map[string]fmt.Stringer{
		"scale to 0, to be refused":                                ringproof.Op{Kind: ringproof.OpScale, Refused: true},
		"restart leader scope agent as v3.6.16 with a=1 b= for 5s": ringproof.Op{Kind: ringproof.OpRestart, Target: "leader", Scope: "agent", Version: "v3.6.16", For: 5 * second, Flags: map[string]string{"b": "", "a": "1"}},
		"ask m2 for defrag":                                        ringproof.Step{Op: &ringproof.Op{Kind: ringproof.OpAsk, Target: "m2", Request: "defrag"}},
		"reset m1 asking m2":                                       ringproof.Op{Kind: ringproof.OpReset, Target: "m1", Endpoint: "m2"},
		"kill of leader scope machine for 2s, healed 3s apart":     ringproof.Step{Fault: &ringproof.Fault{Kind: ringproof.FaultKill, Target: "leader", Scope: "machine", For: 2 * second, Stagger: 3 * second}},
		"agent-crash before etcd put number 2":                     ringproof.Fault{Kind: ringproof.FaultAgentCrash, Effect: "etcd put", Phase: "before", Nth: 2},
		"nap of m1 deep=yes":                                       ringproof.Fault{Kind: "nap", Target: "m1", Params: map[string]string{"deep": "yes"}},
		"3 voters within 1m0s":                                     ringproof.Step{Assert: &ringproof.Assert{Voters: 3, Within: 60 * second}},
		"member-added of grow of bind number 2 + 1s":               ringproof.Trigger{Event: ringproof.EventMemberAdded, Step: "grow", Action: "bind", Nth: 2, Delay: second},
		"kube-delete of m2 object volume how forced":               ringproof.Fault{Kind: ringproof.FaultKubeDelete, Target: "m2", Object: "volume", How: "forced"},
		"peers to tls":                                             ringproof.Op{Kind: ringproof.OpPeers, Peers: "tls"},
		"nothing":                                                  ringproof.Step{},
	} {
		assert.Equal(t, want, value.String())
	}
	s := ringproof.Step{After: &ringproof.Trigger{Event: ringproof.EventHealPhase}, Join: []string{"a", "b"}, Detach: true}
	assert.Equal(t, "after heal-phase, joins a, b, detached", s.When())
}

// TestStepAt: a subject is told of a fault at its seams, of a store that is away or stale by
// itself, and of a step that is over by nothing.
func TestStepAt(t *testing.T) {
	at := func(kind ringproof.FaultKind) (*ringproof.Fault, ringproof.Seams) {
		f := &ringproof.Fault{Kind: kind}
		return f, ringproof.Step{Name: "x", Fault: f}.At()
	}
	assert.Equal(t, ringproof.Seams{Step: "x"}, ringproof.Step{Name: "x"}.At())
	f, outage := at(ringproof.FaultStoreOutage)
	assert.Equal(t, ringproof.Seams{Step: "x", StoreOutage: f}, outage)
	_, stale := at(ringproof.FaultStoreStale)
	assert.Equal(t, ringproof.Seams{Step: "x", StoreStale: true}, stale)
	f, crash := at(ringproof.FaultAgentCrash)
	assert.Equal(t, ringproof.Seams{Step: "x", Fault: f}, crash)
}
