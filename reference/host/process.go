// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package host

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is the etcd process of a machine, known by a pid file that also
// holds the time the kernel says it started: a pid alone may be reused. An
// agent killed between starting etcd and writing the file leaves a process
// that only its --data-dir names; a second one on the same directory would
// fail for ever, so that one is looked for too.
type process struct {
	dir  string // of the pid file and the output
	root string // every --data-dir of this machine is below it
	most int64  // bytes of output that are kept, twice; 0: mostOutput
}

const mostOutput = 4 << 20

// claim is the pid file.
type claim struct {
	PID     int    `json:"pid"`
	Started string `json:"started"` // field 22 of /proc/PID/stat, in clock ticks since boot
}

func (p *process) file() string   { return filepath.Join(p.dir, "etcd.pid") }
func (p *process) output() string { return filepath.Join(p.dir, "etcd.log") }

// find returns the pid of the process; 0 when it is gone.
func (p *process) find() (int, error) {
	text, err := os.ReadFile(p.file())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	var c claim
	if json.Unmarshal(text, &c) == nil {
		if started, alive := startTime(c.PID); alive && started == c.Started {
			return c.PID, nil
		}
	}
	return p.search()
}

// bound keeps etcd's output small: it runs for years, and the run directory is in
// memory. etcd appends to a file that it has open, so what is there is copied and
// the file cut; a line that is written meanwhile may be lost.
func (p *process) bound() {
	most := cmp.Or(p.most, mostOutput)
	if info, err := os.Stat(p.output()); err != nil || info.Size() <= most {
		return
	}
	text, err := os.ReadFile(p.output())
	if err != nil || os.WriteFile(p.output()+".1", text[max(0, int64(len(text))-most):], 0o600) != nil {
		return // it is tried again at the next turn
	}
	_ = os.Truncate(p.output(), 0)
}

// search looks for an etcd that was started on this machine's data. Others name them
// too: one who restores a backup there with etcdutl, or defragments it, is not to be
// signalled for the machine's etcd.
func (p *process) search() (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	ours, serves := []byte("\x00--data-dir="+p.root+"/"), []byte("\x00--listen-peer-urls=")
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(text, ours) || !bytes.Contains(text, serves) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if _, alive := startTime(pid); alive {
			return pid, nil
		}
	}
	return 0, nil
}

// startTime reads when the kernel started the process. A zombie is gone: it
// has let go of its files and ports.
func startTime(pid int) (ticks string, alive bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || string(fields[0]) == "Z" || string(fields[0]) == "X" {
		return "", false
	}
	return string(fields[19]), true
}

func (p *process) Running() ([]string, error) {
	p.bound()
	pid, err := p.find()
	if pid == 0 || err != nil {
		return nil, err
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return nil, nil
	}
	var args []string
	for word := range bytes.SplitSeq(bytes.TrimRight(text, "\x00"), []byte{0}) {
		args = append(args, string(word))
	}
	return args, nil
}

// Start starts etcd in a session of its own: a signal to the agent's process
// group is not meant for it.
func (p *process) Start(_ context.Context, args []string) error {
	if err := private(p.dir); err != nil {
		return err
	}
	output, err := os.OpenFile(p.output(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = ownSession()
	cmd.Env = environment(os.Environ())
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	go cmd.Wait() // reaps it while this agent lives; init does afterwards
	started, _ := startTime(cmd.Process.Pid)
	text, _ := json.Marshal(claim{PID: cmd.Process.Pid, Started: started})
	return disk{root: p.dir}.Write("etcd.pid", text)
}

// environment is what etcd gets of the agent's: all but its own settings. A flag
// that isn't given is taken from ETCD_*, and ETCD_FORCE_NEW_CLUSTER in a shell
// that somebody used for a rescue would make each member a ring of its own.
func environment(ours []string) []string {
	return slices.DeleteFunc(slices.Clone(ours), etcds)
}

func (p *process) Stop(ctx context.Context, grace time.Duration) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		pid, err := p.find()
		if pid == 0 || err != nil {
			return err
		}
		started, _ := startTime(pid)
		if err := signalProcess(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stopping etcd: %w", err)
		}
		if gone(ctx, grace, pid, started) {
			return nil
		}
	}
	return errors.New("stopping etcd: it outlived SIGKILL")
}

// gone waits until the process has ended. One that is ending has no command line any
// more, so whoever searches by that finds it gone while it holds its files still.
func gone(ctx context.Context, within time.Duration, pid int, started string) bool {
	for end := time.Now().Add(within); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if now, alive := startTime(pid); !alive || now != started {
			return true
		}
	}
	return false
}

// LastWords returns the last 2 KiB of etcd's output, or of a panic with which it ended
// the first: the stacks of all goroutines come after the reason, and are many times as long.
func (p *process) LastWords() string {
	text, err := os.ReadFile(p.output())
	if err != nil {
		return ""
	}
	return lastWords(string(text))
}

func lastWords(output string) string {
	const most = 2048
	for _, begins := range []string{"\npanic: ", "\nfatal error: "} {
		at := strings.LastIndex(output, begins)
		if at >= 0 && !anotherLife(output[at:]) {
			return output[at+1 : min(len(output), at+1+most)]
		}
	}
	return output[max(0, len(output)-most):]
}

// anotherLife reports whether etcd was started again after a panic: it has logged, or told how
// it is called, as it does where it takes no flag.
func anotherLife(after string) bool {
	return strings.Contains(after, "\n{\"level\"") || strings.Contains(after, "\nUsage:\n")
}

// etcds reports whether a variable is one that etcd reads.
func etcds(pair string) bool { return strings.HasPrefix(pair, "ETCD_") }

// Inherited names the variables of this program's environment that etcd would read, and
// that reach none.
func Inherited() (names []string) {
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); etcds(pair) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
