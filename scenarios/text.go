// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
)

// A scalar is a type that is written as one word. parse returns the code and
// what is wrong; legal, when it isn't nil, lists what may be written.
type scalar interface {
	parse(text string, known Known) (complaint, bool)
}

// complaint is a problem that doesn't know its place yet.
type complaint struct {
	code    string
	message string
	legal   []string
}

// Event is the name of something that happens.
type Event string

func (e *Event) parse(text string, _ Known) (complaint, bool) {
	*e = Event(text)
	if _, ok := ringproof.EventKinds()[ringproof.EventKind(text)]; ok {
		return complaint{}, true
	}
	return complaint{"S015", fmt.Sprintf("unknown event %q", text), eventNames()}, false
}

// JSONSchema lists the events.
func (Event) JSONSchema() *jsonschema.Schema { return enum(eventNames()) }

func eventNames() []string {
	var names []string
	for kind := range maps.Keys(ringproof.EventKinds()) {
		names = append(names, string(kind))
	}
	slices.Sort(names)
	return names
}

// WorldName is the name of a world.
type WorldName string

func (w *WorldName) parse(text string, _ Known) (complaint, bool) {
	*w = WorldName(text)
	return complaint{"S019", fmt.Sprintf("unknown world %q", text), faults.Worlds()}, slices.Contains(faults.Worlds(), text)
}

// JSONSchema lists the worlds.
func (WorldName) JSONSchema() *jsonschema.Schema { return enum(faults.Worlds()) }

// Domain is what stands behind the dot of machines' names.
type Domain string

// longestDomain leaves room for m32 and a dot: a host name has 253 characters at most.
const longestDomain = 249

var domainPattern = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (d *Domain) parse(text string, _ Known) (complaint, bool) {
	*d = Domain(text)
	number := strings.Trim(text[strings.LastIndex(text, ".")+1:], "0123456789") == ""
	switch {
	case len(text) > longestDomain:
		return complaint{code: "S056", message: fmt.Sprintf("a domain of %d characters: it may have %d, for names to have 253", len(text), longestDomain)}, false
	case number || !domainPattern.MatchString(text):
		return complaint{code: "S056", message: fmt.Sprintf("domain %q: between its dots are 1 to 63 lower-case letters, digits and dashes, and the last part is no number", text)}, false
	}
	return complaint{}, true
}

// JSONSchema is its form.
func (Domain) JSONSchema() *jsonschema.Schema {
	most := uint64(longestDomain)
	return &jsonschema.Schema{Type: "string", Pattern: domainPattern.String(), MaxLength: &most}
}

// Action is the name of something that the subject does.
type Action string

func (a *Action) parse(text string, known Known) (complaint, bool) {
	*a = Action(text)
	if len(known.Actions) == 0 || slices.Contains(known.Actions, text) || slices.Contains(known.Writes, text) {
		return complaint{}, true
	}
	return complaint{"S018", fmt.Sprintf("unknown action %q of the subject", text), known.Actions}, false
}

// JSONSchema allows any word: subjects differ in their actions.
func (Action) JSONSchema() *jsonschema.Schema { return &jsonschema.Schema{Type: "string"} }

// Effect is the name of one call at the subject's seams.
type Effect string

func (e *Effect) parse(text string, _ Known) (complaint, bool) {
	*e = Effect(text)
	if faults.IsEffect(text) {
		return complaint{}, true
	}
	return complaint{"S029", fmt.Sprintf("unknown effect %q", text), faults.EffectForms()}, false
}

// JSONSchema gives the pattern of every effect.
func (Effect) JSONSchema() *jsonschema.Schema {
	var patterns []string
	for _, form := range faults.EffectForms() {
		verb, _, free := strings.Cut(form, " ")
		if free && verb != "etcd" {
			form = verb + " [A-Za-z0-9._/-]+"
		}
		patterns = append(patterns, form)
	}
	return &jsonschema.Schema{Type: "string", Pattern: "^(" + strings.Join(patterns, "|") + ")$"}
}

// Selector names the target of a fault or an operation.
type Selector string

func (s *Selector) parse(text string, _ Known) (complaint, bool) {
	*s = Selector(text)
	if faults.Form(text) != "" {
		return complaint{}, true
	}
	return complaint{"S016", fmt.Sprintf("unknown target %q", text), forms()}, false
}

// JSONSchema gives the pattern of every selector.
func (Selector) JSONSchema() *jsonschema.Schema {
	var patterns []string
	for _, form := range forms() {
		pattern := form
		if strings.HasSuffix(form, "N") {
			pattern = strings.ReplaceAll(form, "N", "[1-9][0-9]*")
		}
		pattern = strings.ReplaceAll(pattern, "NAME", "[A-Za-z0-9._-]+")
		patterns = append(patterns, pattern)
	}
	return &jsonschema.Schema{Type: "string", Pattern: "^(" + strings.Join(patterns, "|") + ")$"}
}

func forms() []string {
	var names []string
	for _, s := range faults.Selectors() {
		names = append(names, s.Form)
	}
	return names
}

// Release is an etcd release.
type Release string

const releasePattern = `^v[0-9]+\.[0-9]+\.[0-9]+(-[a-z]+\.[0-9]+)?$`

var release = regexp.MustCompile(releasePattern)

func (r *Release) parse(text string, _ Known) (complaint, bool) {
	*r = Release(text)
	if release.MatchString(text) {
		return complaint{}, true
	}
	return complaint{"S019", fmt.Sprintf("etcd release %q: write it in full, such as v3.6.16", text), nil}, false
}

// JSONSchema gives the pattern of a release.
func (Release) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: releasePattern}
}

// Text is any single value, as it is written.
type Text string

func (t *Text) parse(text string, _ Known) (complaint, bool) {
	*t = Text(text)
	return complaint{}, true
}

// JSONSchema allows every scalar.
func (Text) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}}}
}

// Rate is operations a second, written 60/s or 600/m.
type Rate float64

var rate = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)/(s|m)$`)

func (r *Rate) parse(text string, _ Known) (complaint, bool) {
	m := rate.FindStringSubmatch(text)
	if m == nil {
		return complaint{"S019", fmt.Sprintf("rate %q: write a number a second or a minute, such as 60/s", text), nil}, false
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	if m[2] == "m" {
		n /= 60
	}
	*r = Rate(n)
	if n <= 0 || n > 100_000 {
		return complaint{"S019", fmt.Sprintf("rate %q is outside 0 to 100000/s; for no load write profile: none", text), nil}, false
	}
	return complaint{}, true
}

// JSONSchema gives the pattern of a rate.
func (Rate) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: rate.String()}
}

// Bytes is a size, written 512Mi.
type Bytes int64

var size = regexp.MustCompile(`^([1-9][0-9]{0,6})(Ki|Mi|Gi)$`)

var units = map[string]int64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}

func (b *Bytes) parse(text string, _ Known) (complaint, bool) {
	m := size.FindStringSubmatch(text)
	if m == nil {
		return complaint{"S019", fmt.Sprintf("size %q: write a number with Ki, Mi or Gi, such as 512Mi", text), nil}, false
	}
	n, _ := strconv.ParseInt(m[1], 10, 64)
	*b = Bytes(n * units[m[2]])
	if *b < 16<<20 || *b > 1<<40 {
		return complaint{"S019", fmt.Sprintf("size %q is outside 16Mi to 1024Gi", text), nil}, false
	}
	return complaint{}, true
}

// JSONSchema gives the pattern of a size.
func (Bytes) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: size.String()}
}

// durationPattern is what time.ParseDuration reads, without a sign.
const durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`

var duration = regexp.MustCompile(durationPattern)

// A run takes no longer than a day; clocks in it may go on by years.
const (
	longestSpan  = 24 * time.Hour
	longestShift = 100 * 365 * 24 * time.Hour
)

func parseDuration(text string) (ringproof.Duration, complaint, bool) {
	d, err := time.ParseDuration(text)
	if err == nil && duration.MatchString(text) && d <= longestSpan {
		return ringproof.Duration(d), complaint{}, true
	}
	message := fmt.Sprintf("duration %q: write a number with a unit, such as 15s or 500ms", text)
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && !math.IsInf(n, 0) {
		message = fmt.Sprintf("duration %q has no unit; did you mean \"%ss\"?", text, text)
	} else if d > longestSpan {
		message = fmt.Sprintf("duration %q is longer than a day", text)
	}
	return 0, complaint{"S017", message, nil}, false
}

// Shift is by how much a clock goes on, -5m or 400d, or what else is longer.
type Shift ringproof.Duration

func (s *Shift) parse(text string, _ Known) (complaint, bool) {
	d, c, ok := parseShift(text)
	*s = Shift(d)
	return c, ok
}

// JSONSchema gives the pattern of a shift.
func (Shift) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: "^-?([0-9]+d|" + strings.Trim(durationPattern, "^$") + ")$"}
}

var days = regexp.MustCompile(`^[0-9]{1,5}d$`)

func parseShift(text string) (ringproof.Duration, complaint, bool) {
	length, negative := strings.CutPrefix(text, "-")
	if days.MatchString(length) {
		n, _ := strconv.Atoi(strings.TrimSuffix(length, "d"))
		length = fmt.Sprintf("%dh", n*24)
	}
	d, c, ok := parseDuration(length)
	if long, err := time.ParseDuration(length); err == nil && long > longestSpan && duration.MatchString(length) {
		d, ok = ringproof.Duration(long), long <= longestShift
		c.message = fmt.Sprintf("duration %q is longer than a hundred years", text)
	}
	if negative {
		d = -d
	}
	return d, c, ok
}

func enum(values []string) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, v := range values {
		s.Enum = append(s.Enum, v)
	}
	return s
}
