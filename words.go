// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package ringproof

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Counted prints a number of things, named by one of them: "1 member", "3 members".
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// What a step is, prints itself in few words, each parameter by its name. Package faults
// has the sentences that tell it to a person.

// String prints what the step does: "scale to 5", "kill of leader scope machine".
func (s Step) String() string {
	switch {
	case s.Op != nil:
		return s.Op.String()
	case s.Fault != nil:
		return s.Fault.String()
	case s.Assert != nil:
		return s.Assert.String()
	}
	return "nothing"
}

// When says when the step begins: "after member-added of grow, detached"; "" for the one
// that comes next.
func (s Step) When() string {
	var parts []string
	if s.After != nil {
		parts = append(parts, "after "+s.After.String())
	}
	if len(s.Join) > 0 {
		parts = append(parts, "joins "+strings.Join(s.Join, ", "))
	}
	if s.Detach {
		parts = append(parts, "detached")
	}
	return strings.Join(parts, ", ")
}

// String prints "member-added of grow of bind number 2 + 500ms".
func (t Trigger) String() string {
	text := string(t.Event)
	for _, of := range []string{t.Step, t.Action} {
		if of != "" {
			text += " of " + of
		}
	}
	if t.Nth > 1 {
		text += fmt.Sprintf(" number %d", t.Nth)
	}
	if t.Since != "" {
		text += " since " + string(t.Since)
	}
	if t.Delay != 0 {
		text += " + " + t.Delay.String()
	}
	return text
}

// String prints "scale to 5", "restart leader scope machine for 5s", "ask m2 for defrag".
func (o Op) String() string {
	text := string(o.Kind)
	if o.Kind == OpScale || o.To != 0 {
		text += fmt.Sprintf(" to %d", o.To)
	}
	if o.Target != "" {
		text += " " + o.Target
	}
	if o.Peers != "" {
		text += " to " + o.Peers
	}
	text += labelled("for", o.Request, "asking", o.Endpoint, "scope", o.Scope, "as", o.Version) + named("with ", o.Flags) + lasting(o.For) + named("", o.Params)
	if o.Refused {
		text += ", to be refused"
	}
	if o.Rival {
		text += ", beside another operator's"
	}
	return text
}

// String prints "volume-loss of leader leaving nothing for 5s".
func (f Fault) String() string {
	phase := f.Phase
	if phase == "" {
		phase = "at"
	}
	text := string(f.Kind) + labelled("of", f.Target, "object", f.Object, "how", f.How, "scope", f.Scope, "shape", f.Shape, "port", f.Port, phase, f.Action+f.Effect,
		"leaving", f.Leave, "calls", f.Calls, "at", f.At, "does", f.Does, "from", f.From, "remount", f.Remount, "about", f.Records,
		"decision", f.Decision, "alarm", f.Alarm, "answers", f.Answers)
	for _, n := range []struct {
		label string
		value int
	}{{"number", f.Nth}, {"back", f.Back}, {"count", f.Count}, {"percent", f.Percent}} {
		if n.value != 0 {
			text += fmt.Sprintf(" %s %d", n.label, n.value)
		}
	}
	if f.By != 0 {
		text += " by " + f.By.String()
	}
	text += lasting(f.For) + named("", f.Params)
	if f.Stagger != 0 {
		text += ", healed " + f.Stagger.String() + " apart"
	}
	return text
}

// String prints "3 voters, that m3 leads within 1m0s".
func (a Assert) String() string {
	return fmt.Sprintf("%s within %s", strings.Join(a.Wants(), ", "), a.Within)
}

// labelled prints " of leader scope machine", without those that are empty.
func labelled(pairs ...string) string {
	text := ""
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			text += " " + pairs[i] + " " + pairs[i+1]
		}
	}
	return text
}

// named prints " with a=b c=d".
func named(with string, values map[string]string) string {
	if len(values) == 0 {
		return ""
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, name+"="+values[name])
	}
	return " " + with + strings.Join(all, " ")
}

func lasting(d Duration) string {
	if d == 0 {
		return ""
	}
	return " for " + d.String()
}
