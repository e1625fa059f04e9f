// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package scenarios

import "slices"

// Code is one kind of problem. Codes are stable: a code is never given to
// another problem.
type Code struct {
	Code  string `json:"code"`
	Title string `json:"title"`
	Doc   string `json:"doc"`
}

var codes = []Code{
	{"S001", "not YAML", "The file can't be read as YAML 1.2. The place is where the reader gave up; the cause is often a line earlier: a quote, bracket or colon."},
	{"S002", "empty file", "The file holds no scenario. `ringproof new NAME` writes one to start from."},
	{"S003", "file too large", "A scenario file may hold 1 MiB. What is larger was generated: split it, or use a matrix."},
	{"S004", "more than one document", "A file holds one scenario. Cut it at the --- line."},
	{"S005", "YAML feature not supported", "Anchors, aliases, merge keys and tags are refused: with them a value no longer stands where it is used. Repeat the value, or use the matrix."},
	{"S006", "duplicate key", "A key stands twice in one mapping. YAML readers differ in which one they take."},
	{"S007", "tab in the indentation", "YAML is indented with spaces only."},
	{"S008", "nested too deeply", "No part of a scenario nests deeper than 32 levels."},
	{"S009", "too many problems", "Only the first 50 problems are shown; the rest is mostly a consequence of them."},
	{"S010", "unknown key", "Decoding is strict: a key that means nothing here is an error, not ignored. `ringproof schema` prints every legal key."},
	{"S011", "missing key", "A required key is absent."},
	{"S012", "wrong kind of value", "A list, mapping, text, number or boolean stands where another is expected."},
	{"S013", "unknown operation", "`ringproof list ops` prints the operations that can be asked of a subject."},
	{"S014", "unknown fault", "`ringproof list faults` prints the catalogue."},
	{"S015", "unknown event", "`ringproof list events` prints what a trigger can wait for. The names are the same in every world."},
	{"S016", "illegal target", "The target is no selector, or one that this fault or operation can't have."},
	{"S017", "bad duration", "A duration is a number with a unit: 500ms, 15s, 5m. A bare number is refused: nobody knows whether it means seconds."},
	{"S018", "unknown action", "The subject has no action of that name. The reference's are bootstrap, add-learner, bind, promote, remove, move-leader, launch, clear; its controller's are kube delete pod, kube replace statefulset and the like."},
	{"S019", "illegal value", "The value is outside what the key may hold."},
	{"S020", "unknown check", "`ringproof list checks` prints the checks that can judge a history."},
	{"S021", "bad parameter of a check", "The check has no such parameter, or it is written differently."},
	{"S022", "not exactly one action", "A step does one thing: exactly one of op, fault and assert."},
	{"S023", "not exactly one kind", "An op names exactly one operation, a fault exactly one fault, an invariant exactly one check."},
	{"S024", "parameter that this fault doesn't take", "`ringproof explain FAULT` prints a fault's parameters."},
	{"S025", "missing parameter of a fault", "`ringproof explain FAULT` prints which parameters a fault needs."},
	{"S026", "malformed name", "Names become parts of cells' names, command lines and files: letters, digits, dots, dashes and underscores."},
	{"S027", "duplicate name", "Steps are told apart by their names, and so are the values of an axis."},
	{"S028", "assert that asks nothing", "An assert asks for a state of the ring or of the subject; without any it always holds."},
	{"S029", "unknown effect", "No call at a subject's seams has that name. The forms are those in the help; NAME is a file on the machine's disk, PREFIX what the keys of a store's records begin with."},
	{"S030", "unknown matrix axis", "${matrix.x} names an axis that spec.matrix doesn't have."},
	{"S031", "unused matrix axis", "No value uses the axis, so its cells are all the same run."},
	{"S032", "axis without values", "An axis is a list of at least one value."},
	{"S033", "too many cells", "The matrix makes more than 256 cells."},
	{"S034", "malformed substitution", "The one substitution is ${matrix.axis}."},
	{"S040", "trigger that nothing can produce", "No step before this one, as far as it can be told, causes the event; the step would wait until its timeout."},
	{"S041", "unknown step", "join, after.step and the target step/NAME name steps that stand before this one."},
	{"S042", "join of a step that isn't detached", "A step that isn't detached is done before the next begins; the join waits for nothing."},
	{"S043", "beyond tolerance", "The losses up to here leave no quorum that keeps its log, so no subject could survive. Let the ring recover in between (assert its voters), or say mode: disaster. At run time the ledger would replace the loss by a kill."},
	{"S044", "not possible in this world", "The chosen world can't do the step. The cell is not applicable there; it does not count as passed."},
	{"S045", "detached step never joined", "Nothing waits for the step; join it where its outcome is asserted."},
	{"S046", "timeouts that contradict each other", "The step's timeout ends before what it waits for may."},
	{"S047", "refusal that doesn't fit", "Even sizes and sizes outside 1 to 9 are refused by a correct subject: write refused: true. Other sizes aren't."},
	{"S048", "not enough machines", "More voters, or spares, are needed than ring.machines gives."},
	{"S049", "mode that doesn't fit", "halted can be asserted in mode disaster only, and mode disaster needs a loss beyond tolerance."},
	{"S050", "ring of an even size", "A ring starts with 1, 3, 5, 7 or 9 voters: an even size adds a voter and no tolerance."},
	{"S051", "plan that holds chance", "A plan holds no draws: resolve the scenario again, or name the target."},
	{"S052", "known bug that proves nothing", "The scenario of a known bug runs one release of etcd with it and one without, the rest alike, and the check that must fail it judges both. The releases are values of an axis that ring.version takes."},
	{"S053", "flag that can't be given", "ring.flags holds flags of etcd by name, without dashes, and none that the subject sets itself: sizes of time and snapshots have fields of their own in ring, addresses and certificates are the subject's. ring.members names machines of the ring; what one of them lacks is a release that members run."},
	{"S054", "release that nobody knows", "ringproof knows etcd 3.5, 3.6 and 3.7: the simulated etcd is a model of those, and the subject's flags are theirs. A ring of another release could only fail."},
	{"S055", "size that nothing asks for", "The assert wants a number of voters that the ring doesn't begin with and no step before it asks for. A correct subject fails it."},
	{"S056", "domain that no machine can be in", "A machine's name is m1, a dot and the domain. A domain has at most 249 characters, and between its dots 1 to 63 lower-case letters, digits and dashes, none of them a dash at an end. Its last part isn't a number: that would be an IP address."},
	{"S057", "file of another kind", "A scenario begins with apiVersion and is run, linted and explained; a plan begins with cell, is one run of a scenario with every choice made, and is replayed, shrunk and confirmed; a subject is of kind Subject, and put on trial by --subject."},
	{"S058", "unknown variable of a subject", "Between {{. and }} stands one of the names that docs/subjects.md and `ringproof list variables` print. Nothing else is filled in, and no shell reads the result."},
	{"S059", "program that can't be run", "The first word of run is a program: with a slash it is found from the directory of the subject's file, without one in PATH. It must be a file that may be executed."},
	{"S060", "pattern that can't be read", "The lines that a subject tells something by are matched by Go's regular expressions (https://pkg.go.dev/regexp/syntax)."},
	{"S061", "etcd that nobody chose", "A scenario names the release that is run, and its report claims that. A subject must be handed it: {{.Etcd}} is the path of its binary, {{.Version}} its name."},
	{"S062", "name that nobody has", "The fault is about a machine's name, and this ring's machines have none: they are known by their addresses. Give spec.ring.domain."},
	{"S063", "name that leads a ring without TLS astray", "A member that gets a message which isn't for it answers 403, and whoever sent it takes that for its own removal and ends (etcd's EtcdServer.Process, and rafthttp's pipeline). Under TLS the certificate shows that it is another, and nothing is sent."},
	{"S064", "upgrade that etcd doesn't do", "A ring goes to a later release of its minor, or of the next minor: never down, and no minor is left out. One that is asked for by a detached step is taken back by asking for the release before. What else is asked for a correct subject refuses: write refused: true."},
	{"S065", "peers that can't speak so", "Members begin as their clients do, or in plain text beside clients that speak TLS. From there op: {peers: {to: tls}} moves them; a correct subject doesn't go back to plain text: write refused: true."},
	{"S066", "subject of two sorts", "A subject is started on machines (spec.start), or is an operator on Kubernetes (spec.operator). What is about commands on machines means nothing for an operator, which is deployed, and asked by patches of its object."},
	{"S067", "operator that can't be built", "spec.operator.main is the directory of a main package of Go, found from the directory of the subject's file. It is built again with the standard library of the virtual world, so its module and all that it needs must be there; no file is written in it."},
	{"S068", "objects that can't be found", "spec.operator.crds and manifests are files of Kubernetes's objects, YAML or JSON, or directories of such, found from the directory of the subject's file. A directory with a kustomization.yaml is built, as by kubectl apply -k."},
	{"S069", "object that can't be read", "The resource and the patches of an operator are YAML once their variables are filled in: an object with apiVersion and kind, and parts of one. pods.selector is a label selector, as kubectl get -l takes it."},
	{"S070", "end that can't be judged", "A ring on Kubernetes can be deleted for good, and then nothing of it may be left. On machines nobody asks for that; and the storage of a ring that is deleted and made anew on the way (ring-deleted) is one that stays."},
	{"S071", "machine that may have no member", "Of more machines than voters those bootstrap the ring that come first. Which they are is the subject's affair and the machines', so a fault or an assert that is about a member says which by a selector."},
	{"S072", "old word", "The word still means what it meant, for one release. `ringproof schema` prints today's."},
	{"S073", "assert that can't be met", "All members that are listed serve, or an assert of the ring is not met. A fault without an end of its own lasts until all faults end, after the last step."},
	{"S074", "what can't come again", "times and every have a fault come several times, each begun so long after the last began. What a fault has taken for good, or puts back in the end, can't be taken again."},
	{"S075", "fault of a cluster", "What is deleted, drained or denied in a Kubernetes cluster is not there where a ring is one of machines: the step could be had in no world, and the run would tell of nothing."},
}

// Codes lists every code.
func Codes() []Code { return slices.Clone(codes) }
