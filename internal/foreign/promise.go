// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package foreign

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/scenarios"
)

// Promise is what a subject's file says that can be asked of it. What it doesn't say
// is not applicable, and never passed.
type Promise struct{ subject *scenarios.Subject }

// Read reads a subject's file.
func Read(file string) (*scenarios.Subject, scenarios.Diagnostics, error) {
	stat, err := os.Stat(file)
	if err == nil && !stat.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", file)
	}
	if err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, nil, err
	}
	s, found := scenarios.ReadSubject(file, text, beside(filepath.Dir(path)))
	if s != nil {
		s.File = path
	}
	return s, found, nil
}

// runnable finds a program: with a slash from the directory, without one in PATH.
func runnable(dir, program string) (string, error) {
	if !strings.Contains(program, "/") {
		path, err := exec.LookPath(program)
		if err != nil {
			return "", errors.New("it is not in PATH; with a slash, as in ./" + program + ", it is looked for beside the file")
		}
		return filepath.Abs(path)
	}
	if !filepath.IsAbs(program) {
		program = filepath.Join(dir, program)
	}
	stat, err := os.Stat(program)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return program, errors.New("there is no such file; a program with a slash is found from the directory of the subject's file")
	case err != nil:
		return program, err
	case stat.IsDir():
		return program, errors.New("it is a directory")
	case stat.Mode()&0o111 == 0:
		return program, errors.New("it is not executable; chmod +x makes it so")
	}
	return program, nil
}

// Promised is what the file says of the subject.
func Promised(s *scenarios.Subject) *Promise { return &Promise{s} }

// kindLine finds that of the object by which an operator is asked for a ring.
var kindLine = regexp.MustCompile(`(?m)^kind: *"?([A-Za-z]+)`)

// Kind is what its rings are to the API server, as kubectl names it; "": it is no operator.
func (p *Promise) Kind() string {
	if p.subject.Spec.Operator == nil {
		return ""
	}
	if found := kindLine.FindStringSubmatch(p.subject.Spec.Operator.Resource); found != nil {
		return strings.ToLower(found[1])
	}
	return ""
}

// Security is how its ring talks where nobody says.
func (p *Promise) Security() string { return p.subject.Spec.Etcd.Security[0] }

// lack is what a file doesn't say of its subject.
type lack string

func (l lack) Error() string { return string(l) }

// Is makes it an unsupported operation.
func (lack) Is(target error) bool { return target == errors.ErrUnsupported }

func (p *Promise) lacks(format string, args ...any) error {
	return lack(p.subject.Name + " " + fmt.Sprintf(format, args...))
}

// Supports says what of the step the file says nothing of.
func (p *Promise) Supports(s ringproof.Step) error {
	err := p.after(s.After)
	switch {
	case err != nil:
		return err
	case s.Op != nil:
		return p.operation(*s.Op)
	case s.Fault != nil:
		return p.fault(s)
	case s.Assert != nil:
		return p.asserted(*s.Assert)
	}
	return nil
}

// asserted says why an assert can't be judged: it rests on what the subject never tells.
func (p *Promise) asserted(a ringproof.Assert) error {
	switch {
	case a.Halted && !p.tells(ringproof.EventHalted):
		return p.lacks("never tells that it halts (tells)")
	case a.Said != "" && !p.tells(ringproof.EventHalted) && !p.tells(ringproof.EventWaiting):
		return p.lacks("never tells what it waits for (tells)")
	case a.Changes != nil && !p.tells(ringproof.EventActionDone):
		return p.lacks("never tells what it has done (tells)")
	}
	return nil
}

func (p *Promise) operation(op ringproof.Op) error {
	kind := op.Kind
	if p.subject.Spec.Operator != nil {
		return p.patch(op)
	}
	if kind == ringproof.OpRoll || kind == ringproof.OpAsk || kind == ringproof.OpRestart && !op.Changes() {
		return nil // a signal to its processes, or a question to etcd
	}
	if p.subject.Spec.Operations.Of(kind) == nil {
		return p.lacks("can't be asked to %s (operations.%s)", kind, kind)
	}
	if op.Refused && len(p.subject.Spec.Refused) == 0 {
		return p.lacks("doesn't say how it refuses (refused)")
	}
	return nil
}

// patch says what an operator can't be asked for by an edit of its object.
func (p *Promise) patch(op ringproof.Op) error {
	restart := op.Kind == ringproof.OpRestart || op.Kind == ringproof.OpRoll
	switch {
	case restart && (op.Changes() || op.Scope != "" && op.Scope != "process"):
		return p.lacks("has pods, in which only etcd's process is restarted")
	case restart || op.Kind == ringproof.OpAsk || op.Kind == ringproof.OpEdit:
		return nil
	case p.subject.Spec.Operator.Patches.Of(op.Kind) == "":
		return p.lacks("can't be asked to %s (operator.patches.%s)", op.Kind, op.Kind)
	}
	return nil
}

// need is a word of `replaces` without which a fault is not done to a subject, and what one without
// the word doesn't do.
type need struct{ word, lacks string }

var needs = map[ringproof.FaultKind]need{
	ringproof.FaultVolumeLoss:     {"volumes", "doesn't replace the member of a lost disk"},
	ringproof.FaultForeignHand:    {"volumes", "doesn't bring back a member that somebody removed"},
	ringproof.FaultMachineLoss:    {"machines", "doesn't replace the member of a lost machine"},
	ringproof.FaultKubeDelete:     {"claims", "doesn't replace the member of a deleted claim or volume"},
	ringproof.FaultSetDeleted:     {"statefulset", "has no pods by a StatefulSet, which it makes anew"},
	ringproof.FaultSetScaled:      {"statefulset", "has no pods by a StatefulSet, whose number it sets back"},
	ringproof.FaultObjectsDeleted: {"objects", "doesn't make anew what else it has made"},
	ringproof.FaultObjectsEmptied: {"objects", "doesn't set right what else it has made"},
	ringproof.FaultRingDeleted:    {"ring", "doesn't keep what the members of a deleted ring hold"},
}

// removal is a loss that nothing stops for.
var removal = need{"data", "doesn't look whether the data of an etcd that runs are still there"}

func (p *Promise) fault(s ringproof.Step) error {
	switch kind, operator := s.Fault.Kind, p.subject.Spec.Operator != nil; {
	case operator && s.Fault.Scope == "agent":
		return p.lacks("has no agents in its pods: its controller is hit by kube-kill and kube-pause")
	case operator && kind == ringproof.FaultAgentCrash && s.Fault.Scope == ringproof.ScopeController && faults.Unseeable(s.Fault.Effect):
		return nil // its writes pass the proxy
	case operator && kind == ringproof.FaultAgentCrash:
		return p.lacks("can be hit only where its controller writes to the API server: {scope: controller, effect: kube VERB KIND}")
	case faults.AtSeam(s):
		return p.lacks("has no seams at which %s could be done", kind)
	case kind == ringproof.FaultStartFailure && !operator && !p.subject.Spec.Uses("Etcd"):
		return p.lacks("uses {{.Etcd}} neither in start nor in create: it can't be kept from starting another")
	case kind == ringproof.FaultStoreLost:
		return p.lacks("meets in no store that this harness knows of")
	case kind == ringproof.FaultRecordsDeleted:
		return p.lacks("keeps of its ring what nobody here knows of")
	case kind == ringproof.FaultKubeDelete && !s.Fault.Permanent():
		return nil // with a pod nothing is lost
	case s.Fault.Target == "majority" && kind != ringproof.FaultVolumeLoss:
		return nil // nobody is to replace it; but whoever doesn't look at disks starts on empty ones
	}
	need, some := needs[s.Fault.Kind]
	if s.Fault.How == ringproof.Removed {
		need, some = removal, true
	}
	if !some || slices.Contains(p.subject.Spec.Replaces, need.word) {
		return nil
	}
	return p.lacks("%s (replaces: [%s])", need.lacks, need.word)
}

func (p *Promise) after(t *ringproof.Trigger) error {
	if t != nil && slices.Contains(p.Untold(), t.Event) {
		return p.lacks("never tells of %s (tells)", t.Event)
	}
	return nil
}

// Runs says what of the plan's ring the file says nothing of.
func (p *Promise) Runs(plan ringproof.Plan) error {
	spec, ring := p.subject.Spec, plan.Ring
	given := func(machine ringproof.Own) bool { return len(machine.Flags) > 0 }
	flags := len(ring.Flags) > 0
	for _, own := range ring.Members { // order: any will do
		flags = flags || given(own)
	}
	switch {
	case !slices.Contains(spec.Etcd.Security, ring.Security):
		return p.lacks("makes no ring that is %s (etcd.security)", ring.Security)
	case (spec.Operator != nil) != (ring.On == ringproof.OnKubernetes):
		return p.misplaced()
	case ring.Peers != "":
		return p.lacks("makes no ring whose peers speak another way than its clients")
	case plan.End != nil:
		return p.lacks("may leave what nobody here knows of, when its ring is deleted")
	case ring.Certificates > 0:
		return p.lacks("makes no certificates")
	case spec.Operator != nil:
		return nil
	}
	for variable, asked := range map[string]bool{"Certificates": ring.Security == "tls", "Heartbeat": ring.Heartbeat > 0, "Election": ring.Election > 0,
		"SnapshotCount": ring.SnapCount > 0, "Flags": flags} { // order: any will do
		if asked && !spec.Uses(variable) {
			return p.lacks("uses {{.%s}} neither in start nor in create", variable)
		}
	}
	return nil
}

// misplaced says where it makes no rings.
func (p *Promise) misplaced() error {
	if p.subject.Spec.Operator == nil {
		return p.lacks("makes no ring on Kubernetes (operator)")
	}
	return p.lacks("is an operator, and makes rings on Kubernetes only (ring: {on: kubernetes})")
}

// subjective are the events that nobody but a subject can tell.
var subjective = []ringproof.EventKind{
	ringproof.EventLeads, ringproof.EventActionBegun, ringproof.EventActionDone, ringproof.EventActionFailed,
	ringproof.EventWaiting, ringproof.EventHalted, ringproof.EventBoot, ringproof.EventDiskReplaced, ringproof.EventStatus,
}

// Untold are the events of which it tells nothing.
func (p *Promise) Untold() []ringproof.EventKind {
	return slices.DeleteFunc(slices.Clone(subjective), p.tells)
}

func (p *Promise) tells(kind ringproof.EventKind) bool {
	if o := p.subject.Spec.Operator; kind == ringproof.EventStatus {
		return o != nil && o.Status != (scenarios.OperatorStatus{})
	}
	return slices.ContainsFunc(p.subject.Spec.Tells, func(t scenarios.Telling) bool { return t.Event == string(kind) })
}

// Enter puts it on trial in the plan.
func (p *Promise) Enter(plan *ringproof.Plan) {
	plan.Subject, plan.SubjectFile, plan.Untold = p.subject.Name, p.subject.File, p.Untold()
}
