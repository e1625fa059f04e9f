// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

// Package keeper is what ringproof has in a node of a kind cluster: it tells which processes
// run there and what their pods print, injects faults into them, and passes connections of the run
// to pods, whose addresses nobody outside of the cluster can reach. It is asked on its
// standard input and answers on its standard output, in JSON, a line each.
package keeper

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ringproof/ringproof/internal/sched"
)

// Port is where a keeper passes connections on.
const Port = 7379

// Order is what a keeper is asked.
type Order struct {
	ID int    `json:"id"`
	Do string `json:"do"`

	Pids   []int            `json:"pids,omitempty"`   // of Signal and Environ
	Signal syscall.Signal   `json:"signal,omitempty"` // of Signal
	Pod    string           `json:"pod,omitempty"`    // of Wipe: the uid of whose processes are killed
	Path   string           `json:"path,omitempty"`   // of Wipe: the directory
	Seen   map[string]int64 `json:"seen,omitempty"`   // of Logs: how much of each file was told before
}

// What can be asked.
const (
	DoList    = "list"    // the processes
	DoSignal  = "signal"  // processes
	DoEnviron = "environ" // of one process
	DoWipe    = "wipe"    // a directory, and kill all of a pod
	DoLogs    = "logs"    // from now on, line by line
	DoHeard   = "heard"   // how etcds of the node's pods were spoken to
	DoDisk    = "disk"    // from now on, how long the host's disk keeps a sync waiting
)

// Said is what a keeper says: the answer to the order of that ID, or with none what a pod has
// printed, or logged, or how long it has waited.
type Said struct {
	ID        int       `json:"id,omitempty"`
	Err       string    `json:"err,omitempty"`
	Processes []Process `json:"processes,omitempty"`
	Texts     []string  `json:"texts,omitempty"` // of Environ
	Heard     []Heard   `json:"heard,omitempty"`
	Line      *Line     `json:"line,omitempty"`
	Part      *Part     `json:"part,omitempty"`
	// Lost is how long in the last beat the longest of those waited for a processor that
	// serve a ring on the node, or a sync for the disk.
	Lost time.Duration `json:"lost,omitempty"`
}

// Part is what has come to a log that a pod keeps in a volume of its own, which may be in
// memory and is seen by nobody outside of the node.
type Part struct {
	Pod   string `json:"pod"`  // uid
	Path  string `json:"path"` // below its volumes: "run/etcd/etcd.log"
	At    int64  `json:"at"`   // where in the file; 0: it begins anew
	Bytes []byte `json:"bytes"`
}

// Line is one that a container printed.
type Line struct {
	Namespace string `json:"namespace"` // of its pod
	Text      string `json:"text"`
	File      string `json:"file"`
	Seen      int64  `json:"seen"` // how much of the file was told by then
}

// Process is one on the node.
type Process struct {
	PID    int      `json:"pid"`
	Exe    string   `json:"exe"` // path, as its container has it
	Args   []string `json:"args"`
	State  string   `json:"state"`            // the kernel's letter
	Pod    string   `json:"pod,omitempty"`    // uid; "": it is in none
	First  bool     `json:"first,omitempty"`  // of its container
	Digest string   `json:"digest,omitempty"` // SHA-256 of its program, if that is called etcd
}

// Keeper is one node's.
type Keeper struct {
	wire wire
	deaf error // why the wire can't be listened to
	disk sched.Disk

	listing sync.Mutex
	known   map[life]Process // what never changes of a process
	serving []string         // the pids of those that serve a ring, as of the last list

	mu  sync.Mutex
	out *json.Encoder
}

// Run answers until in ends, which is when whoever asks has gone.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+strconv.Itoa(Port))
	if err != nil {
		return err
	}
	defer l.Close()
	go pass(ctx, l)
	k := &Keeper{known: map[life]Process{}, out: json.NewEncoder(out)}
	go k.listen()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go k.account(ctx, k.serve)
	orders := json.NewDecoder(in)
	for {
		var o Order
		err := orders.Decode(&o)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading an order: %w", err)
		}
		if err := k.say(k.obey(ctx, o)); err != nil {
			return err
		}
	}
}

// account tells how long the host keeps those waiting that serve a ring, and this process,
// through which clients reach it.
func (k *Keeper) account(ctx context.Context, serve func(beats int) []string) {
	var waits sched.Waits
	for beats := 0; ; beats++ {
		lost := min(max(waits.Lost(append([]string{"self"}, serve(beats)...)), k.disk.Lost()), sched.Beat)
		if lost > sched.Little && k.say(Said{Lost: lost}) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(sched.Beat):
		}
	}
}

// serve are the pids of those that serve a ring, looked up now and then, as on some nodes
// nobody asks what runs there.
func (k *Keeper) serve(beats int) []string {
	if beats%10 == 0 {
		k.list()
	}
	k.listing.Lock()
	defer k.listing.Unlock()
	return k.serving
}

func (k *Keeper) listen() {
	err := k.wire.listen()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deaf = err
}

func (k *Keeper) heard() ([]Heard, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wire.all(), k.deaf
}

func (k *Keeper) say(s Said) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.out.Encode(s)
}

func (k *Keeper) obey(ctx context.Context, o Order) (s Said) {
	var err error
	switch o.Do {
	case DoList:
		s.Processes = k.list()
	case DoSignal:
		err = signal(o.Pids, o.Signal)
	case DoEnviron:
		s.Texts, err = environ(o.Pids)
	case DoWipe:
		err = k.wipe(o.Pod, o.Path)
	case DoHeard:
		s.Heard, err = k.heard()
	case DoLogs:
		go k.tell(ctx, o.Seen)
	case DoDisk:
		go k.disk.Keep(ctx, "/var") // fails on a disk that keeps nothing, of which etcds tell
	default:
		err = fmt.Errorf("a keeper can't %q", o.Do)
	}
	s.ID = o.ID
	if err != nil {
		s.Err = err.Error()
	}
	return s
}

// signal signals all of them. One that has ended is not there to be signalled.
func signal(pids []int, sig syscall.Signal) (err error) {
	for _, pid := range pids {
		if e := syscall.Kill(pid, sig); !errors.Is(e, syscall.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	return err
}

func environ(pids []int) ([]string, error) {
	if len(pids) != 1 {
		return nil, fmt.Errorf("the environment of %d processes", len(pids))
	}
	block, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pids[0]))
	return strings.Split(strings.TrimSuffix(string(block), "\x00"), "\x00"), err
}

// wipe kills whoever of the pod runs, and removes all that a directory holds; twice, as one
// that was about to write puts a file there again. What the second time comes to counts.
func (k *Keeper) wipe(pod, path string) (err error) {
	for range 2 {
		err = errors.Join(signal(k.of(pod), syscall.SIGKILL), empty(path))
	}
	return err
}

// of are the processes of a pod, but for what keeps its namespaces.
func (k *Keeper) of(pod string) (pids []int) {
	for _, p := range k.list() {
		if pod != "" && p.Pod == pod && filepath.Base(p.Exe) != pause {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// pass passes connections on: each begins with a line that has the address.
func pass(ctx context.Context, l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			r := bufio.NewReader(c)
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			to, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", strings.TrimSpace(line))
			if err != nil {
				return
			}
			defer to.Close()
			join(c, r, to)
		}()
	}
}

// join copies both ways until both have ended.
func join(c net.Conn, r io.Reader, to net.Conn) {
	var both sync.WaitGroup
	half := func(dst net.Conn, src io.Reader) {
		_, _ = io.Copy(dst, src)
		_ = dst.(*net.TCPConn).CloseWrite()
	}
	both.Go(func() { half(to, r) })
	both.Go(func() { half(c, to) })
	both.Wait()
}

// logs is where the kubelet keeps what containers print.
const logs = "/var/log/pods"

// look is how often it is looked through.
const look = 50 * time.Millisecond

// tell tells what is printed, of each file what comes after what was seen.
func (k *Keeper) tell(ctx context.Context, seen map[string]int64) {
	if seen == nil {
		seen = map[string]int64{}
	}
	for ctx.Err() == nil {
		files, _ := filepath.Glob(filepath.Join(logs, "*", "*", "*.log"))
		slices.Sort(files)
		for _, file := range files {
			lines, upTo := after(file, seen[file])
			for _, l := range lines {
				if k.say(Said{Line: &l}) != nil {
					return
				}
			}
			seen[file] = upTo
		}
		for _, p := range parts(volumes, seen) {
			if k.say(Said{Part: &p}) != nil {
				return
			}
		}
		time.Sleep(look)
	}
}

// volumes is where the kubelet has those of pods, by their uids.
const volumes = "/var/lib/kubelet/pods"

// mostOf is how much of a file is told at once.
const mostOf = 256 << 10

// parts reads of each log in a pod's own volumes what comes after what was seen.
func parts(volumes string, seen map[string]int64) (all []Part) {
	files, _ := filepath.Glob(filepath.Join(volumes, "*", "volumes", "kubernetes.io~empty-dir", "*", "*", "*.log"))
	for _, file := range files {
		stat, err := os.Stat(file)
		if err != nil || stat.Size() == seen[file] {
			continue
		}
		if stat.Size() < seen[file] {
			seen[file] = 0
		}
		below, _ := filepath.Rel(volumes, file)
		names := strings.Split(below, "/")
		p := Part{Pod: names[0], Path: filepath.Join(names[3:]...), At: seen[file], Bytes: make([]byte, min(stat.Size()-seen[file], mostOf))}
		if f, err := os.Open(file); err == nil {
			n, _ := f.ReadAt(p.Bytes, p.At) // what it lacks comes next time
			p.Bytes = p.Bytes[:n]
			seen[file] += int64(n)
			f.Close()
			all = append(all, p)
		}
	}
	return all
}

// after reads the whole lines of a file after what was seen. A file that is shorter is
// another one.
func after(file string, seen int64) (lines []Line, upTo int64) {
	f, err := os.Open(file)
	if err != nil {
		return nil, seen
	}
	defer f.Close()
	if stat, err := f.Stat(); err != nil || stat.Size() == seen {
		return nil, seen
	} else if stat.Size() < seen {
		seen = 0
	}
	if _, err := f.Seek(seen, io.SeekStart); err != nil {
		return nil, seen
	}
	namespace, _, _ := strings.Cut(filepath.Base(filepath.Dir(filepath.Dir(file))), "_")
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return lines, seen
		}
		seen += int64(len(line))
		if text, ok := printed(line); ok {
			lines = append(lines, Line{Namespace: namespace, Text: text, File: file, Seen: seen})
		}
	}
}

// printed is what of a line of a container runtime's log the container printed: it comes
// after a time, the stream, and F if it is whole.
func printed(line string) (text string, ok bool) {
	f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
	if len(f) < 4 {
		return "", false
	}
	return f[3], true
}
