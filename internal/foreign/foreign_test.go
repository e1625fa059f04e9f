// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package foreign

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/scenarios"
)

// written is a subject of a file with that spec, beside a program "launch" and one
// that can't be executed.
func written(t *testing.T, spec string) (*scenarios.Subject, scenarios.Diagnostics) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "subject.yaml")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "launch"), nil, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o644))
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: ringproof.dev/v1alpha1\nkind: Subject\nmetadata: {name: theirs}\nspec:\n"+spec), 0o644))
	s, found, err := Read(file)
	require.NoError(t, err)
	return s, found
}

func read(t *testing.T, spec string) *scenarios.Subject {
	t.Helper()
	s, found := written(t, spec)
	require.NotNil(t, s, "%s", found)
	return s
}

func site(plan ringproof.Plan) trial.Site {
	var machines []trial.Machine
	for i, name := range []string{"m1", "m2", "m3", "m4"} {
		machines = append(machines, trial.Machine{Name: name, Address: "10.0.0." + string(rune('1'+i)), DataDir: "/data", Run: "/run/" + name,
			Etcd: map[string]string{"v3.6.16": "/bin/etcd", "v3.5.35": "/old/etcd"}, Etcdctl: map[string]string{"v3.6.16": "/bin/etcdctl"}})
	}
	return trial.Site{Plan: plan, Dir: "/shared", Machines: machines}
}

var plan = ringproof.Plan{Cell: "create#1", Ring: ringproof.RingSpec{Size: 3, Machines: 4, Version: "v3.6.16", Security: "plain",
	Flags: map[string]string{"quota-backend-bytes": "1"}, Members: map[string]ringproof.Own{"m2": {Version: "v3.5.35"}}}}

func TestVariablesAreFilledIn(t *testing.T) {
	s := read(t, `
  start:
    run: [./launch, "{{.Machine}}/{{.Index}}", "{{.Flags}}", "{{ .InitialCluster }}", "{{.Etcd}}", "{{.Etcdctl}}"]
    env: {B: "{{.Founders}} of {{.Machines}}", A: "{{.Endpoints}} {{.DataDir}} {{.RunDir}} {{.SharedDir}}", C: "{{.Size}} {{.Election}} {{.Flags}} ${HOME}"}
`)
	p := New(s)
	require.NoError(t, p.Seed(t.Context(), site(plan), nil), "nothing is to be created")
	got := p.Agent(p.site.Machines[1])
	dir := filepath.Dir(s.File)
	assert.Equal(t, []string{filepath.Join(dir, "launch"), "m2/2", "--quota-backend-bytes=1",
		"m1=http://10.0.0.1:2380,m2=http://10.0.0.2:2380,m3=http://10.0.0.3:2380", "/old/etcd", ""}, got.Args)
	assert.Equal(t, []string{"A=http://10.0.0.1:2379,http://10.0.0.2:2379,http://10.0.0.3:2379,http://10.0.0.4:2379 /data /run/m2 /shared",
		"B=m1,m2,m3 of m1,m2,m3,m4", "C=3 1000 --quota-backend-bytes=1 ${HOME}"}, got.Env, "no shell reads it")
	p.site.Plan.Ring.Flags = nil
	assert.Len(t, p.Agent(p.site.Machines[0]).Args, 5, "a list without elements is no argument")
}

func TestOperationsAreAsked(t *testing.T) {
	p := New(read(t, `
  start: {run: [./launch, "{{.Version}}"]}
  create: {run: [./launch, create, "{{.Size}}"]}
  operations:
    scale: {run: [./launch, scale, "{{.To}}", "from {{.Machine}}"]}
    restart: {run: [./launch, restart, "{{.Target}}", "{{.Version}}", "{{.Flags}}"]}
    reset: {run: [./launch, reset, "{{.Target}}", "{{.TargetAddress}}"]}
    snapshot: {run: [./launch, save, "{{.File}}"]}
  refused: [3, 4]
`))
	var on string
	var asked []string
	code := 0
	run := func(machine string, program func(trial.Machine) trial.Program) (string, error) {
		on, asked = machine, program(trial.Machine{Name: "m4", DataDir: "/data"}).Args[1:]
		if code != 0 {
			return "", trial.Failure{Program: "launch", Code: code, Said: "no"}
		}
		return "done", nil
	}
	require.NoError(t, p.Seed(t.Context(), site(plan), run))
	assert.Equal(t, []string{"create", "3"}, asked)
	assert.Equal(t, "m1", on)
	said, err := p.Ask(t.Context(), ringproof.Op{Kind: ringproof.OpScale, To: 5}, nil, run)
	require.NoError(t, err)
	assert.Equal(t, "done", said)
	assert.Equal(t, []string{"scale", "5", "from m4"}, asked)
	assert.Empty(t, on, "any machine will do")
	_, err = p.Ask(t.Context(), ringproof.Op{Kind: ringproof.OpRestart, Flags: map[string]string{"quota-backend-bytes": "2"}}, []string{"m2"}, run)
	require.NoError(t, err)
	assert.Equal(t, []string{"restart", "m2", "v3.5.35", "--quota-backend-bytes=2"}, asked)
	_, err = p.Reset(t.Context(), p.site.Machines[2], "", run)
	require.NoError(t, err)
	assert.Equal(t, []string{"reset", "m3", "10.0.0.3"}, asked)
	assert.Equal(t, "m3", on)
	_, err = p.Snapshot(t.Context(), "/shared/snapshot-1.db", run)
	require.NoError(t, err)
	assert.Equal(t, []string{"save", "/shared/snapshot-1.db"}, asked)
	code = 4
	_, err = p.Ask(t.Context(), ringproof.Op{Kind: ringproof.OpScale, To: 4}, nil, run)
	require.ErrorIs(t, err, ringproof.ErrRefused)
	code = 1
	_, err = p.Ask(t.Context(), ringproof.Op{Kind: ringproof.OpScale, To: 4}, nil, run)
	require.ErrorContains(t, err, "launch ended with exit code 1: no")
	require.NotErrorIs(t, err, ringproof.ErrRefused, "who breaks has not refused")
}

func TestLinesAreEvents(t *testing.T) {
	p := New(read(t, `
  start: {run: [./launch, "{{.Version}}"]}
  tells:
  - {line: "^adding a learner", event: action-begun, action: add-learner}
  - {line: lost, event: halted}
`))
	e, heard := p.Hear("the quorum is lost")
	assert.True(t, heard)
	assert.Equal(t, ringproof.Event{Kind: ringproof.EventHalted, Text: "the quorum is lost"}, e)
	e, heard = p.Hear("adding a learner on m4")
	assert.True(t, heard)
	assert.Equal(t, "add-learner", e.Action)
	_, heard = p.Hear("now adding a learner")
	assert.False(t, heard)
	assert.NotContains(t, p.Untold(), ringproof.EventHalted)
	assert.Contains(t, p.Untold(), ringproof.EventLeads)
	var plan ringproof.Plan
	p.Enter(&plan)
	assert.Equal(t, "theirs", plan.Subject)
	assert.Equal(t, p.subject.File, plan.SubjectFile)
	assert.Equal(t, p.Untold(), plan.Untold)
}

func TestWhatAFileLeavesOut(t *testing.T) {
	p := New(read(t, "  start: {run: [./launch, \"{{.Version}}\"]}\n"))
	e := p.Etcd()
	assert.Equal(t, []any{"etcd", "etcd", 2379, 2380, "/run/m1/agent.log"}, []any{e.Program, e.Dir, e.Client, e.Peer, e.Output("/run/m1")})
	assert.Equal(t, trial.UsualStop(), p.Stop())
	p = New(read(t, `
  start: {run: [./launch, "{{.Version}}"]}
  stop: {signal: SIGINT, grace: 2s}
  etcd: {program: etcd-server, dataDir: var/etcd, output: etcd.log, ports: {client: 4001, peer: 7001}}
`))
	e = p.Etcd()
	assert.Equal(t, []any{"etcd-server", "var/etcd", 4001, 7001, "/run/m1/etcd.log"}, []any{e.Program, e.Dir, e.Client, e.Peer, e.Output("/run/m1")})
	assert.Equal(t, 2*time.Second, p.Stop().Grace)
}

// TestWhatIsNotSaidIsNotApplicable: of each pair the bare file lacks what the other says.
func TestWhatIsNotSaidIsNotApplicable(t *testing.T) {
	bare := New(read(t, "  start: {run: [./launch, \"{{.Version}}\"]}\n"))
	whole := New(read(t, `
  start: {run: [./launch, "{{.Etcd}}", "{{.Heartbeat}}", "{{.Election}}", "{{.SnapshotCount}}", "{{.Flags}}"]}
  operations:
    scale: {run: [./launch]}
    restart: {run: [./launch, "{{.Version}}"]}
  refused: [3]
  replaces: [volumes, machines]
  tells:
  - {line: x, event: halted}
  - {line: y, event: action-begun}
`))
	fault := func(kind ringproof.FaultKind) ringproof.Step {
		return ringproof.Step{Fault: &ringproof.Fault{Kind: kind}}
	}
	op := func(o ringproof.Op) ringproof.Step { return ringproof.Step{Op: &o} }
	for lacks, s := range map[string]ringproof.Step{
		"theirs can't be asked to scale (operations.scale)":                                            op(ringproof.Op{Kind: ringproof.OpScale, To: 5}),
		"theirs can't be asked to restart (operations.restart)":                                        op(ringproof.Op{Kind: ringproof.OpRestart, Version: "v3.7.3"}),
		"theirs doesn't replace the member of a lost disk (replaces: [volumes])":                       fault(ringproof.FaultVolumeLoss),
		"theirs doesn't replace the member of a lost machine (replaces: [machines])":                   fault(ringproof.FaultMachineLoss),
		"theirs uses {{.Etcd}} neither in start nor in create: it can't be kept from starting another": fault(ringproof.FaultStartFailure),
		"theirs never tells that it halts (tells)":                                                     {Assert: &ringproof.Assert{Halted: true}},
		"theirs never tells of action-begun (tells)":                                                   {After: &ringproof.Trigger{Event: ringproof.EventActionBegun}, Fault: &ringproof.Fault{Kind: ringproof.FaultKill}},
	} {
		err := bare.Supports(s)
		require.EqualError(t, err, lacks)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.NoError(t, whole.Supports(s), lacks)
	}
	for _, s := range []ringproof.Step{op(ringproof.Op{Kind: ringproof.OpRestart}), op(ringproof.Op{Kind: ringproof.OpRoll}), fault(ringproof.FaultKill),
		{Assert: &ringproof.Assert{Voters: 3}}, {Fault: &ringproof.Fault{Kind: ringproof.FaultMachineLoss, Target: "majority"}}, {After: &ringproof.Trigger{Event: ringproof.EventMemberAdded}, Fault: &ringproof.Fault{Kind: ringproof.FaultKill}}} {
		require.NoError(t, bare.Supports(s))
	}
	require.Error(t, whole.Supports(fault(ringproof.FaultAgentCrash)), "nobody's file gives it seams")
	refused := op(ringproof.Op{Kind: ringproof.OpScale, To: 4, Refused: true})
	require.NoError(t, whole.Supports(refused))
	mute := New(read(t, "  start: {run: [./launch, \"{{.Version}}\"]}\n  operations: {scale: {run: [./launch]}}\n"))
	require.EqualError(t, mute.Supports(refused), "theirs doesn't say how it refuses (refused)")

	for lacks, ring := range map[string]ringproof.RingSpec{
		"theirs uses {{.Heartbeat}} neither in start nor in create":     {Security: "plain", Heartbeat: 1},
		"theirs uses {{.Election}} neither in start nor in create":      {Security: "plain", Election: 1},
		"theirs uses {{.SnapshotCount}} neither in start nor in create": {Security: "plain", SnapCount: 1},
		"theirs uses {{.Flags}} neither in start nor in create":         {Security: "plain", Members: map[string]ringproof.Own{"m1": {Flags: map[string]string{"a": "b"}}}},
	} {
		require.EqualError(t, bare.Runs(ringproof.Plan{Ring: ring}), lacks)
		require.NoError(t, whole.Runs(ringproof.Plan{Ring: ring}))
	}
	secure := ringproof.Plan{Ring: ringproof.RingSpec{Security: "tls"}}
	require.EqualError(t, whole.Runs(secure), "theirs makes no ring that is tls (etcd.security)")
	require.EqualError(t, New(read(t, "  start: {run: [./launch, \"{{.Version}}\"]}\n  etcd: {security: [tls]}\n")).Runs(secure), "theirs uses {{.Certificates}} neither in start nor in create")
	require.Error(t, whole.Runs(ringproof.Plan{Ring: ringproof.RingSpec{Security: "plain", Certificates: 1}}))
}

func TestProgramsAreFound(t *testing.T) {
	for program, why := range map[string]string{
		"./lanch":      "there is no such file",
		"./notes.txt":  "it is not executable",
		"../":          "it is a directory",
		"no-such-tool": "it is not in PATH",
	} {
		_, found := written(t, "  start: {run: ["+program+", \"{{.Etcd}}\"]}\n")
		require.Len(t, found, 1, program)
		assert.Equal(t, "S059", found[0].Code)
		assert.Contains(t, found[0].Message, why, program)
	}
	assert.True(t, filepath.IsAbs(read(t, "  start: {run: [sh, \"{{.Etcd}}\"]}\n").Spec.Start.Run[0]), "one of PATH")
	_, _, err := Read(t.TempDir())
	require.ErrorContains(t, err, "is no file")
	_, _, err = Read(filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestCertificates: each machine has its own, and nobody's client certificate is one
// of a peer.
func TestCertificates(t *testing.T) {
	s := read(t, `
  start: {run: [./launch, "{{.Certificates}}", "{{.Etcd}}", "{{.InitialCluster}}"]}
  etcd: {security: [plain, tls]}
`)
	p := New(s)
	assert.Equal(t, "plain", p.Security(), "the first is the usual one")
	where := site(plan)
	where.Plan.Ring = ringproof.RingSpec{Size: 3, Version: "v3.6.16", Security: "tls"}
	for i := range where.Machines {
		where.Machines[i].Run = t.TempDir()
	}
	require.NoError(t, p.Runs(where.Plan))
	require.NoError(t, p.Seed(t.Context(), where, nil))
	secure, err := p.Credentials(t.Context())
	require.NoError(t, err)
	require.NotNil(t, secure)
	args := p.Agent(where.Machines[0]).Args
	assert.Contains(t, args[3], "m1=https://10.0.0.1:2380,")
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(args[1], name))
		require.NoError(t, err)
		return text
	}
	server, err := pki.Parse(read("clients/server.crt"))
	require.NoError(t, err)
	require.NoError(t, pki.Covers(server, []string{"m1", "10.0.0.1"}))
	client, err := pki.Parse(read("clients/client.crt"))
	require.NoError(t, err)
	require.NoError(t, pki.Vouched(read("clients/ca.crt"), client))
	require.Error(t, pki.Vouched(read("peers/ca.crt"), client))
	peer, err := pki.Parse(read("peers/peer.crt"))
	require.NoError(t, err)
	require.NoError(t, pki.Vouched(read("peers/ca.crt"), peer))
}
