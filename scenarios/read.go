// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	maxFile  = 1 << 20
	maxDepth = 32
)

// readTree reads one YAML document into nodes, which keep their places. What
// YAML can do and a scenario may not, is refused here.
func readTree(t text, src []byte) (*yaml.Node, Diagnostics) {
	if len(src) > maxFile {
		c := complaint{code: "S003", message: fmt.Sprintf("the file has %d bytes, a %s may have %d", len(src), t.holds, maxFile)}
		return nil, Diagnostics{text{name: t.name}.at(place{1, 1, 1}, Error, c, "")}
	}
	reader := yaml.NewDecoder(bytes.NewReader(src))
	root, err := nextDocument(reader)
	if err != nil {
		return nil, Diagnostics{t.unreadable(err)}
	}
	if len(root.Content) == 0 || root.Content[0].Tag == "!!null" {
		return nil, Diagnostics{t.at(place{1, 1, 1}, Error, complaint{code: "S002", message: "the file is empty"}, t.beginning())}
	}
	var found Diagnostics
	second, err := nextDocument(reader)
	switch {
	case err == nil:
		found = append(found, t.at(place{second.Line, second.Column, 1}, Error, complaint{code: "S004", message: "a second document begins here; a file holds one " + t.holds}, ""))
	case !errors.Is(err, io.EOF):
		found = append(found, t.unreadable(err))
	}
	found = append(found, t.refuse(root.Content[0], 1)...)
	return root.Content[0], found
}

// beginning says where to find something to start from.
func (t text) beginning() string {
	if t.holds == holdsSubject {
		return "docs/subjects.md shows one to start from"
	}
	return "`ringproof new NAME` writes a scenario to start from"
}

// nextDocument turns a panic of the YAML reader into an error: a scenario file
// is input like any other.
func nextDocument(reader *yaml.Decoder) (root *yaml.Node, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("yaml: %v", cause)
		}
	}()
	root = &yaml.Node{}
	err = reader.Decode(root)
	return root, err
}

// ofParser matches what the YAML parser says, which counts lines from 0; its
// scanner counts from 1.
var ofParser = regexp.MustCompile(`^did not find expected (node content|key|'|<)`)

var lineOf = regexp.MustCompile(`^line ([0-9]+): `)

// unreadable places what the YAML reader says.
func (t text) unreadable(err error) Diagnostic {
	if errors.Is(err, io.EOF) {
		return t.at(place{1, 1, 1}, Error, complaint{code: "S002", message: "the file is empty"}, t.beginning())
	}
	if p, ok := t.tab(); ok {
		return t.at(p, Error, complaint{code: "S007", message: "a tab in the indentation"}, "YAML is indented with spaces only")
	}
	message, p := strings.TrimPrefix(err.Error(), "yaml: "), place{1, 1, 1}
	if m := lineOf.FindStringSubmatch(message); m != nil {
		message = strings.TrimPrefix(message, m[0])
		p.line, _ = strconv.Atoi(m[1])
		if ofParser.MatchString(message) {
			p.line++
		}
		p.line = max(1, min(p.line, len(t.lines)))
	}
	if line := t.lines[p.line-1]; p.line > 0 {
		p.column = utf8.RuneCountInString(line) - utf8.RuneCountInString(strings.TrimLeft(line, " ")) + 1
		p.width = utf8.RuneCountInString(strings.TrimSpace(line))
	}
	return t.at(p, Error, complaint{code: "S001", message: "this is not YAML: " + message}, "look for a quote, bracket or colon here or in the line above")
}

func (t text) tab() (place, bool) {
	for i, line := range t.lines {
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if column := strings.IndexByte(indent, '\t'); column >= 0 && len(indent) < len(line) {
			return place{i + 1, column + 1, 1}, true
		}
	}
	return place{}, false
}

// refuse lists the anchors, aliases, merges and tags, and what nests too deep.
func (t text) refuse(n *yaml.Node, depth int) Diagnostics {
	if depth > maxDepth {
		return Diagnostics{t.at(placeOf(n), Error, complaint{code: "S008", message: fmt.Sprintf("nested deeper than %d levels", maxDepth)}, "")}
	}
	var found Diagnostics
	if what := foreign(n); what != "" {
		found = append(found, t.at(placeOf(n), Error, complaint{code: "S005", message: what + " is not supported"}, "write the value where it is used, or make it an axis of the matrix"))
	}
	for _, child := range n.Content {
		if len(found) > maxDiagnostics {
			break
		}
		found = append(found, t.refuse(child, depth+1)...)
	}
	return found
}

func foreign(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.AliasNode:
		return "the alias *" + n.Value
	case n.Anchor != "":
		return "the anchor &" + n.Anchor
	case n.Tag == "!!merge":
		return "the merge key <<"
	case n.Style&yaml.TaggedStyle != 0:
		return "the tag " + n.Tag
	}
	return ""
}

func placeOf(n *yaml.Node) place {
	p := place{line: n.Line, column: n.Column, width: 1}
	if n.Kind == yaml.ScalarNode {
		p.width = max(1, utf8.RuneCountInString(n.Value))
		if quoted(n) {
			p.width += 2
		}
	}
	return p
}

func quoted(n *yaml.Node) bool {
	return n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0
}
