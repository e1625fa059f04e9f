// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
)

// SubjectKind is the kind of a subject's file.
const SubjectKind = "Subject"

// HoldsSubject reports whether the file is of that kind, or looks like it.
func HoldsSubject(src []byte) bool {
	tree, found := readTree(newText("", holdsSubject, src), src)
	return !found.Failed() && looksLike(tree) == holdsSubject
}

// SubjectForm is a subject's file as it is written: how a program that ringproof
// doesn't know is started, asked and understood. Zero fields were absent.
type SubjectForm struct {
	APIVersion string      `json:"apiVersion" jsonschema:"required,enum=ringproof.dev/v1alpha1" jsonschema_description:"the version of this form"`
	Kind       string      `json:"kind" jsonschema:"required,enum=Subject" jsonschema_description:"what the file holds"`
	Metadata   Metadata    `json:"metadata" jsonschema:"required" jsonschema_description:"the subject's name, by which reports call it"`
	Spec       SubjectSpec `json:"spec" jsonschema:"required" jsonschema_description:"the subject"`
}

// SubjectSpec is the subject itself.
type SubjectSpec struct {
	Description string     `json:"description,omitempty" jsonschema_description:"what it is, in one sentence"`
	Main        string     `json:"main,omitempty" jsonschema_description:"the directory of its main package, from the file's directory, if it is a program in Go: it is built, and is {{.Main}}. Such a subject is tried in virtual time too, if its commands run nothing but {{.Main}}, {{.Etcd}} and {{.Etcdctl}}"`
	Create      *Command   `json:"create,omitempty" jsonschema_description:"what a person does once, on the first machine, before anything is started"`
	Start       Command    `json:"start,omitempty" jsonschema_description:"what is kept running on each machine, spares too: it is started again 300 ms after it ended, and has etcd run. A subject has this or operator"`
	Operator    *Operator  `json:"operator,omitempty" jsonschema_description:"an operator on Kubernetes, tried in the virtual world"`
	Stop        Stop       `json:"stop,omitempty" jsonschema_description:"how it is told to end"`
	Operations  Operations `json:"operations,omitempty" jsonschema_description:"how it is asked for what scenarios ask; a cell with an operation that isn't here is not applicable"`
	Refused     []int      `json:"refused,omitempty" jsonschema_description:"the exit codes by which an operation is refused; any other but 0 is one that couldn't be carried out, and is tried again"`
	Etcd        EtcdPlace  `json:"etcd,omitempty" jsonschema_description:"where its etcd is found on a machine"`
	Replaces    []string   `json:"replaces,omitempty" jsonschema:"enum=volumes,enum=data,enum=machines,enum=claims,enum=statefulset,enum=objects,enum=ring" jsonschema_description:"what it mends by itself when it is lost for good: the member of a machine whose disk came back empty (volumes), whose data were removed while its etcd runs (data), of a machine that is gone (machines), of a pod whose claim or whose claim's volume was deleted (claims); the StatefulSet that makes its pods, or the number that it keeps (statefulset); its Services, Secrets and other objects, and what they say (objects); the whole ring, with what its members hold, when the object that asks for it is made anew (ring). A cell that loses what isn't here is not applicable"`
	Tells       []Telling  `json:"tells,omitempty" jsonschema_description:"lines of its output that ringproof understands. What it never tells no check is asked about"`
}

// Command is a program with its arguments; no shell reads them.
type Command struct {
	Run []string          `json:"run" jsonschema:"required" jsonschema_description:"the program and its arguments, each with {{.Variables}}. A program with a slash is found from the file's directory, one without in PATH"`
	Env map[string]string `json:"env,omitempty" jsonschema_description:"what it has in its environment besides ringproof's own, with {{.Variables}}"`
}

// Stop is how a subject's process is ended in order.
type Stop struct {
	Signal string             `json:"signal,omitempty" jsonschema:"enum=SIGTERM,enum=SIGINT,enum=SIGHUP,enum=SIGQUIT" jsonschema_description:"SIGTERM when absent"`
	Grace  ringproof.Duration `json:"grace,omitempty" jsonschema_description:"how long it may take before it is killed; 30s when absent"`
}

// Operations are what can be asked of a subject.
type Operations struct {
	Scale         *Command `json:"scale,omitempty" jsonschema_description:"have {{.To}} voters"`
	Replace       *Command `json:"replace,omitempty" jsonschema_description:"move the member off {{.Target}}"`
	CancelReplace *Command `json:"cancel-replace,omitempty" jsonschema_description:"take that back"`
	Suspend       *Command `json:"suspend,omitempty" jsonschema_description:"leave the ring as it is"`
	Resume        *Command `json:"resume,omitempty" jsonschema_description:"go on"`
	MoveLeader    *Command `json:"move-leader,omitempty" jsonschema_description:"have {{.Target}} lead"`
	Restart       *Command `json:"restart,omitempty" jsonschema_description:"give {{.Target}} the release {{.Version}} and the flags {{.Flags}} before its etcd is restarted; a restart that changes nothing asks for nothing"`
	Reset         *Command `json:"reset,omitempty" jsonschema_description:"empty the disk of {{.Target}}; it runs there"`
	Snapshot      *Command `json:"snapshot,omitempty" jsonschema_description:"write what the ring holds into {{.File}}, as etcdctl snapshot save does"`
}

// Of returns how the operation is asked; nil: it isn't.
func (o Operations) Of(kind ringproof.OpKind) *Command {
	return map[ringproof.OpKind]*Command{
		ringproof.OpScale: o.Scale, ringproof.OpReplace: o.Replace, ringproof.OpCancelReplace: o.CancelReplace, ringproof.OpSuspend: o.Suspend,
		ringproof.OpResume: o.Resume, ringproof.OpMoveLeader: o.MoveLeader, ringproof.OpRestart: o.Restart, ringproof.OpReset: o.Reset, ringproof.OpSnapshot: o.Snapshot,
	}[kind]
}

// EtcdPlace is where the etcd of a machine is found.
type EtcdPlace struct {
	Program  string    `json:"program,omitempty" jsonschema_description:"what its executable is called; etcd when absent. A subject that is etcd itself, in one process, can't be told from it"`
	DataDir  string    `json:"dataDir,omitempty" jsonschema_description:"its data directory, below {{.DataDir}}, or below the volume of its pod; etcd when absent"`
	Output   string    `json:"output,omitempty" jsonschema_description:"the file with what it prints, below {{.RunDir}}; when absent the subject's process passes it on"`
	Ports    EtcdPorts `json:"ports,omitempty" jsonschema_description:"where it listens"`
	Security []string  `json:"security,omitempty" jsonschema:"enum=plain,enum=tls" jsonschema_description:"how members and clients can talk, the usual way first; plain when absent"`
}

// EtcdPorts are etcd's ports.
type EtcdPorts struct {
	Client int `json:"client,omitempty" jsonschema:"minimum=1,maximum=65535" jsonschema_description:"2379 when absent"`
	Peer   int `json:"peer,omitempty" jsonschema:"minimum=1,maximum=65535" jsonschema_description:"2380 when absent"`
}

// Telling is a line of a subject's output that is an event.
type Telling struct {
	Line   string `json:"line" jsonschema:"required" jsonschema_description:"a regular expression of Go; the whole line becomes the event's text"`
	Event  string `json:"event" jsonschema:"required,enum=halted,enum=waiting,enum=boot,enum=leads,enum=action-begun,enum=action-done,enum=action-failed,enum=disk-replaced" jsonschema_description:"what the line tells"`
	Action Action `json:"action,omitempty" jsonschema_description:"of action-begun, action-done and action-failed: which"`
}

// Variable is what stands for something of the machine or the ring in a subject's file.
type Variable struct {
	Name string `json:"name"`
	Doc  string `json:"doc"`
	In   string `json:"in,omitempty"` // the commands that know it, between commas; "": all do
}

var variables = []Variable{
	{"Machine", "the machine's name", ""},
	{"Index", "its number among all machines, from 1", ""},
	{"Address", "what the others reach it by: an IP address, or its name where the ring is in a domain", ""},
	{"DataDir", "its data filesystem: what a lost volume takes, and a full disk fills", ""},
	{"RunDir", "a directory of its own that outlives its volume", ""},
	{"SharedDir", "a directory that every machine sees", ""},
	{"SubjectDir", "the directory of the subject's file", ""},
	{"Main", "the program that is built of main", ""},
	{"Etcd", "the path of the machine's etcd", ""},
	{"Etcdctl", "the path of the etcdctl of that release", ""},
	{"Version", "the release of the machine's etcd, such as v3.6.16", ""},
	{"Size", "how many voters the ring begins with", ""},
	{"Founders", "the names of the machines that it begins on, between commas", ""},
	{"Machines", "the names of all machines, spares too, between commas", ""},
	{"InitialCluster", "m1=http://10.0.0.1:2380,… of the initial members, as etcd's flag takes it", ""},
	{"Endpoints", "the client URLs of all machines, between commas", ""},
	{"Scheme", "http or https", ""},
	{"ClientPort", "the port at which etcd is to serve clients", ""},
	{"PeerPort", "the port at which its peers are to reach it", ""},
	{"Token", "a word that differs from ring to ring", ""},
	{"Certificates", "the directory of a ring with TLS: clients/ with ca, server and client, and peers/ with ca and peer, each .crt and .key", ""},
	{"Heartbeat", "etcd's heartbeat interval in milliseconds", ""},
	{"Election", "etcd's election timeout in milliseconds", ""},
	{"SnapshotCount", "etcd's snapshot-count", ""},
	{"Flags", "more flags of etcd, --name=value; an argument that is nothing else becomes as many as there are", ""},
	{"ReplaceAfter", "for how long a machine is waited for before it is replaced, such as 10s", ""},
	{"To", "the number of voters asked for", "scale"},
	{"Target", "the machine that the operation is about", "replace, move-leader, restart, reset"},
	{"TargetAddress", "what it is reached by", "replace, move-leader, restart, reset"},
	{"File", "the file that is to be written, which is not there yet", "snapshot"},
}

// Variables lists what a subject's file may write between {{. and }}.
func Variables() []Variable { return slices.Concat(variables, operatorVariables) }

// knows reports whether the variable means something in the command of that name.
func (v Variable) knows(command string) bool {
	return v.In == "" || slices.Contains(strings.Split(v.In, ", "), command)
}

// Subject is a subject's file that decodes, with what it leaves out filled in.
type Subject struct {
	Name string
	File string
	Spec SubjectSpec
}

// ReadSubject reads a subject's file, as strictly as a scenario is read.
func ReadSubject(file string, src []byte, in Places) (*Subject, Diagnostics) {
	t := newText(file, holdsSubject, src)
	tree, found := readTree(t, src)
	if found.Failed() {
		return nil, found.ordered()
	}
	if found := otherwise(t, tree, holdsSubject); found.Failed() {
		return nil, found
	}
	d := newDecoder(t, Known{}, nil)
	var form SubjectForm
	d.decode(tree, reflect.ValueOf(&form).Elem(), "")
	d.judgeSubject(&form, in)
	if found := d.found.ordered(); found.Failed() {
		return nil, found
	}
	return &Subject{Name: form.Metadata.Name, File: file, Spec: form.Spec.filled()}, nil
}

// filled has what the file leaves out.
func (s SubjectSpec) filled() SubjectSpec {
	usual := func(v *string, otherwise string) {
		if *v == "" {
			*v = otherwise
		}
	}
	usual(&s.Stop.Signal, "SIGTERM")
	usual(&s.Etcd.Program, "etcd")
	usual(&s.Etcd.DataDir, "etcd")
	if s.Stop.Grace == 0 {
		s.Stop.Grace = defaultGrace
	}
	if s.Etcd.Ports.Client == 0 {
		s.Etcd.Ports.Client = 2379
	}
	if s.Etcd.Ports.Peer == 0 {
		s.Etcd.Ports.Peer = 2380
	}
	if len(s.Etcd.Security) == 0 {
		s.Etcd.Security = []string{"plain"}
	}
	if s.Operator != nil {
		o := s.Operator.filled()
		s.Operator = &o
	}
	return s
}

// commands are the commands of the file, by the name of their key.
func (s *SubjectSpec) commands() map[string]*Command {
	all := map[string]*Command{}
	if s.Operator == nil {
		all["start"] = &s.Start
	}
	if s.Create != nil {
		all["create"] = s.Create
	}
	ops := reflect.ValueOf(&s.Operations).Elem()
	for _, f := range fieldsOf(ops.Type()) {
		if c, given := ops.Field(f.index).Interface().(*Command); given && c != nil {
			all[f.name] = c
		}
	}
	return all
}

// Uses reports whether the file hands the variable to whoever makes the ring.
func (s SubjectSpec) Uses(variable string) bool {
	return s.Start.uses(variable) || s.Create != nil && s.Create.uses(variable)
}

// UsesAnywhere reports whether any command of the file has the variable.
func (s SubjectSpec) UsesAnywhere(variable string) bool {
	for _, c := range s.commands() { // order: any one is enough
		if c.uses(variable) {
			return true
		}
	}
	return false
}

func (c Command) uses(variable string) bool {
	texts := append(slices.Collect(maps.Values(c.Env)), c.Run...)
	return slices.ContainsFunc(between.FindAllStringSubmatch(strings.Join(texts, "\n"), -1), func(m []string) bool { return nameOf(m[1]) == variable })
}

// judgeSubject holds a subject to what tags can't say.
func (d *decoder) judgeSubject(form *SubjectForm, in Places) {
	_, started := d.at["spec.start"]
	d.exactlyOne("S066", "a subject", "spec", map[string]bool{"start": started, "operator": form.Spec.Operator != nil})
	if name := form.Metadata.Name; name != "" && (!isWord(name) || name == "reference") {
		d.complain(d.placed("metadata.name"), complaint{code: "S026", message: fmt.Sprintf("malformed name %q", name)}, "letters, digits, dots, dashes and underscores; reference is ringproof's own subject")
	}
	for name, c := range form.Spec.commands() { // order: problems are sorted by place
		path := "spec." + name
		if name != "start" && name != "create" {
			path = "spec.operations." + name
		}
		d.judgeCommand(name, c, path, in.Runnable)
	}
	if form.Spec.Operator != nil {
		d.judgeOperator(&form.Spec, in)
	}
	d.judgeMain(&form.Spec, in)
	if len(form.Spec.Start.Run) > 0 && !form.Spec.Uses("Etcd") && !form.Spec.Uses("Version") {
		d.complain(d.keyed("spec.start"), complaint{code: "S061", message: "nobody knows which etcd it runs: neither start nor create uses {{.Etcd}} or {{.Version}}"}, "a cell is of the release that it names; {{.Etcd}} is the path of that")
	}
	for i, t := range form.Spec.Tells {
		if _, err := regexp.Compile(t.Line); err != nil {
			d.complain(d.placed(fmt.Sprintf("spec.tells[%d].line", i)), complaint{code: "S060", message: fmt.Sprintf("the pattern %q can't be read: %v", t.Line, err)}, "")
		}
	}
	for key, value := range map[string]string{"dataDir": form.Spec.Etcd.DataDir, "output": form.Spec.Etcd.Output} { // order: as above
		if strings.HasPrefix(value, "/") || strings.Contains(value, "..") || strings.Contains(value, "{{") {
			d.complain(d.placed("spec.etcd."+key), complaint{code: "S019", message: fmt.Sprintf("%s is %q; it must be a path below the directory that is given", key, value)}, "")
		}
	}
}

// judgeMain finds what is to be built, and holds the file to use it.
func (d *decoder) judgeMain(spec *SubjectSpec, in Places) {
	switch used := spec.UsesAnywhere("Main"); {
	case spec.Main == "" && used:
		d.complain(d.keyed("spec"), complaint{code: "S058", message: "{{.Main}} means nothing: the file has no main"}, "main is the directory of a main package of Go's")
	case spec.Main != "" && spec.Operator == nil && !used:
		d.complain(d.keyed("spec.main"), complaint{code: "S067", message: "no command of the file runs {{.Main}}, so that what is built of main is not on trial"}, "start: {run: [\"{{.Main}}\"]}")
	}
	d.find("spec.main", &spec.Main, "S067", in.Package)
}

// Abroad is a command that can't be run in virtual time, by its key; "": all can be. What
// runs there is built for it.
func (s SubjectSpec) Abroad() string {
	commands := s.commands()
	for _, name := range sortedKeys(commands) {
		run := commands[name].Run
		if len(run) == 0 || !slices.Contains([]string{"Main", "Etcd", "Etcdctl"}, only(run[0])) {
			return name
		}
	}
	return ""
}

// only is the variable that a text is, and nothing else; "": it is more, or another thing.
func only(text string) string {
	if m := between.FindStringSubmatch(text); m != nil && m[0] == text {
		return nameOf(m[1])
	}
	return ""
}

// between matches what stands between two pairs of braces.
var between = regexp.MustCompile(`\{\{(.*?)\}\}`)

var variableForm = regexp.MustCompile(`^\s*\.([A-Za-z]+)\s*$`)

// nameOf is the variable's name; "": something else stands between the braces.
func nameOf(inside string) string {
	if m := variableForm.FindStringSubmatch(inside); m != nil {
		return m[1]
	}
	return ""
}

func (d *decoder) judgeCommand(name string, c *Command, path string, runnable func(string) (string, error)) {
	if len(c.Run) == 0 {
		if _, written := d.at[join(path, "run")]; written {
			d.complain(d.keyed(join(path, "run")), complaint{code: "S011", message: "run names no program"}, "")
		}
		return
	}
	for i, text := range c.Run {
		d.judgeTemplate(name, text, fmt.Sprintf("%s.run[%d]", path, i))
	}
	for key, text := range c.Env { // order: problems are sorted by place
		d.judgeTemplate(name, text, join(join(path, "env"), key))
	}
	if strings.Contains(c.Run[0], "{{") {
		return
	}
	found, err := runnable(c.Run[0])
	if err != nil {
		d.complain(d.placed(path+".run[0]"), complaint{code: "S059", message: fmt.Sprintf("%q can't be run: %v", c.Run[0], err)}, "")
	}
	c.Run[0] = found
}

func (d *decoder) judgeTemplate(command, text, path string) {
	d.judgeText(command, text, path, func(v Variable) bool { return v.knows(command) })
}

// judgeText complains of what stands between braces and is no variable that is known there.
func (d *decoder) judgeText(where, text, path string, known func(Variable) bool) {
	all := Variables()
	for _, m := range between.FindAllStringSubmatch(text, -1) {
		name := nameOf(m[1])
		i := slices.IndexFunc(all, func(v Variable) bool { return v.Name == name })
		switch {
		case name == "":
			d.complain(d.placed(path), complaint{code: "S058", message: fmt.Sprintf("%s is no variable", m[0])}, "a variable is written {{.Machine}}; there are no functions, loops or conditions")
			return // what stands beside it is its end, or its like
		case i < 0:
			d.complain(d.placed(path), complaint{"S058", fmt.Sprintf("unknown variable %q", name), namesKnown(known)}, "")
		case !known(all[i]):
			d.complain(d.placed(path), complaint{code: "S058", message: fmt.Sprintf("{{.%s}} means nothing in %s", name, where)}, "")
		}
	}
	if strings.Contains(between.ReplaceAllString(text, ""), "{{") {
		d.complain(d.placed(path), complaint{code: "S058", message: "{{ is never closed"}, "")
	}
}

func namesKnown(known func(Variable) bool) []string {
	var names []string
	for _, v := range Variables() {
		if known(v) {
			names = append(names, v.Name)
		}
	}
	return names
}

// Fill writes the command's arguments and environment with the values of its variables.
// An argument that is nothing but a list becomes its elements.
func (c Command) Fill(values map[string]string, lists map[string][]string) (args, env []string) {
	fill := func(text string) string {
		return between.ReplaceAllStringFunc(text, func(m string) string {
			name := nameOf(between.FindStringSubmatch(m)[1])
			if list, ok := lists[name]; ok {
				return strings.Join(list, " ")
			}
			return values[name]
		})
	}
	for _, text := range c.Run {
		if m := between.FindStringSubmatch(text); m != nil && m[0] == text {
			if list, ok := lists[nameOf(m[1])]; ok {
				args = append(args, list...)
				continue
			}
		}
		args = append(args, fill(text))
	}
	for _, name := range sortedKeys(c.Env) {
		env = append(env, name+"="+fill(c.Env[name]))
	}
	return args, env
}

// SubjectField is one key of a subject's file.
type SubjectField struct {
	Key string `json:"key"` // below spec
	Doc string `json:"doc"`
}

// SubjectFields lists the keys below spec, in the order of the form.
func SubjectFields() []SubjectField { return keysOf(reflect.TypeFor[SubjectSpec](), "") }

func keysOf(t reflect.Type, path string) (all []SubjectField) {
	for _, f := range fieldsOf(t) {
		field := t.Field(f.index)
		key, inner := join(path, f.name), field.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		doc := field.Tag.Get("jsonschema_description")
		if f.required {
			doc = "**required**: " + doc
		}
		if len(f.enum) > 0 {
			doc += " (" + strings.Join(f.enum, ", ") + ")"
		}
		all = append(all, SubjectField{key, doc})
		if inner.Kind() == reflect.Struct {
			all = append(all, keysOf(inner, key)...)
		}
	}
	return all
}
