// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

//go:embed testdata
var testdata embed.FS

// Script is a transcript: what was done, and what etcd said.
type Script struct {
	Name  string // "membership/remove-leader"
	Needs []Need
	Only  []string // minor releases ("3.6"); none means all
	steps []step
}

// step is one command and what it must print.
type step struct {
	before string // comments and blank lines, as they are in the file
	line   int
	text   string // the command and its input, as they are in the file
	call   call
	want   string // whole lines
}

// call is a command as it is understood.
type call struct {
	name  string
	words []string
	opts  map[string]string
	flags []string // etcd's own: --name=value
	input []string
}

// Scripts returns every script, by name.
func Scripts() ([]Script, error) {
	var all []Script
	err := fs.WalkDir(testdata, "testdata", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.Contains(entry.Name(), ".") {
			return err
		}
		text, err := testdata.ReadFile(path)
		if err != nil {
			return err
		}
		script, err := Parse(strings.TrimPrefix(path, "testdata/"), string(text))
		all = append(all, script)
		return err
	})
	return all, err
}

// Parse reads datadriven's format: a command, its input, a line of four dashes,
// what is expected up to a blank line.
func Parse(name, text string) (Script, error) {
	s := Script{Name: name}
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); {
		begin := i
		for i < len(lines) && aside(lines[i]) {
			i++
		}
		before := strings.Join(lines[begin:i], "")
		if i == len(lines) {
			break
		}
		end, next := section(lines, i)
		if end == next {
			return s, fmt.Errorf("%s:%d: the command has no line of four dashes below it", name, i+1)
		}
		st := step{before: before, line: i + 1, text: strings.Join(lines[i:end], ""), want: strings.Join(lines[end+1:next], "")}
		if err := s.add(st); err != nil {
			return s, fmt.Errorf("%s:%d: %w", name, st.line, err)
		}
		if i = next; i < len(lines) {
			i++ // the blank line
		}
	}
	return s, nil
}

func aside(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || strings.HasPrefix(line, "#")
}

// section finds where the input of the command at i ends, and where its
// expected output does.
func section(lines []string, i int) (end, next int) {
	for end = i; end < len(lines) && lines[end] != "----\n"; end++ {
	}
	for next = end; next < len(lines) && strings.TrimSpace(lines[next]) != ""; next++ {
	}
	return end, next
}

func (s *Script) add(st step) error {
	c, err := parseCall(st.text)
	if err != nil {
		return err
	}
	st.call = c
	switch c.name {
	case "needs":
		for _, word := range c.words {
			if !slices.Contains(needs, Need(word)) {
				return fmt.Errorf("needs %s: there is no such need; there are %q", word, needs)
			}
			s.Needs = append(s.Needs, Need(word))
		}
	case "only":
		s.Only = append(s.Only, c.words...)
	default:
		err = cmp.Or(c.valid(), s.hurried(c))
	}
	s.steps = append(s.steps, st)
	return err
}

func parseCall(text string) (call, error) {
	head, input, _ := strings.Cut(strings.TrimSuffix(text, "\n"), "\n")
	words := strings.Fields(head)
	c := call{name: words[0], opts: map[string]string{}}
	if input != "" {
		c.input = strings.Split(input, "\n")
	}
	for _, word := range words[1:] {
		name, value, option := strings.Cut(word, "=")
		_, twice := c.opts[name]
		switch {
		case strings.HasPrefix(word, "--"):
			c.flags = append(c.flags, word)
		case !option:
			c.words = append(c.words, word)
		case twice:
			return c, fmt.Errorf("%s: %s is given twice", c.name, name)
		default:
			c.opts[name] = value
		}
	}
	return c, nil
}

// valid holds a call to what its command takes: an option that is misspelt
// must not be one that is left out.
func (c call) valid() error {
	known, ok := commands[c.name]
	if !ok {
		return fmt.Errorf("%s: there is no such command; there are %s", c.name, strings.Join(slices.Sorted(maps.Keys(commands)), ", "))
	}
	takes := strings.Fields(known.options + " in within hurry term")
	for _, option := range slices.Sorted(maps.Keys(c.opts)) {
		if !slices.Contains(takes, option) {
			return fmt.Errorf("%s: no option %s; there are %s", c.name, option, strings.Join(takes, ", "))
		}
	}
	if len(c.words) < known.least || len(c.words) > known.most {
		return fmt.Errorf("%s: takes %d to %d words, and has %d", c.name, known.least, known.most, len(c.words))
	}
	return nil
}

// on reports whether the step is done on a release: in=3.5,3.6 restricts it.
func (s step) on(release string) bool {
	in, restricted := s.call.opts["in"]
	return !restricted || slices.Contains(strings.Split(in, ","), minor(release))
}

// minor is 3.6 of v3.6.16.
func minor(release string) string {
	parts := strings.SplitN(strings.TrimPrefix(release, "v"), ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// unfit returns "", or why the script can't be played on the system.
func (s Script) unfit(system System) string {
	if len(s.Only) > 0 && !slices.Contains(s.Only, minor(system.Release())) {
		return "only for " + strings.Join(s.Only, ", ")
	}
	for _, need := range s.Needs {
		if why := system.Lacks(need); why != "" {
			return why
		}
	}
	return ""
}

// text writes the script with other outputs; where got is nil, its own.
func (s Script) text(got []*string) string {
	var b strings.Builder
	for i, st := range s.steps {
		want := st.want
		if i < len(got) && got[i] != nil {
			want = *got[i]
		}
		b.WriteString(st.before + st.text + "----\n" + want)
		if i+1 < len(s.steps) {
			b.WriteString("\n")
		}
	}
	return b.String()
}
