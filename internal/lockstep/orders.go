// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package lockstep

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Machines is one more than the highest number of a machine; they count from 1.
const Machines = 254

// coordinatorHost is where the coordinator itself can be reached, at any port.
const coordinatorHost = 254

// TableEnv names the environment variable with the directory in which the coordinator keeps
// what runs on each machine, as a /proc each by the machine's number.
const TableEnv = "LOCKSTEP_TABLE"

// Address is that of the machine with this number, from 1 to 253.
func Address(machine byte) netip.Addr { return netip.AddrFrom4(host(machine)) }

// Deed is what is done to the world.
type Deed struct {
	Do       string         `json:"do"`
	Machines []byte         `json:"machines,omitempty"`
	To       []byte         `json:"to,omitempty"`
	Pids     []int          `json:"pids,omitempty"`
	Signal   syscall.Signal `json:"signal,omitempty"`
	By       time.Duration  `json:"by,omitempty"`
	Path     string         `json:"path,omitempty"`
	At       netip.AddrPort `json:"at,omitzero"`
	Port     uint16         `json:"port,omitempty"`
	But      bool           `json:"but,omitempty"`
	Percent  int            `json:"percent,omitempty"`
}

// The deeds.
const (
	DoCut    = "cut"    // what Machines send To others waits from now on; if Port is not 0, what is dialled there, or all but that
	DoMend   = "mend"   // and comes now
	DoOff    = "off"    // Machines have no power: their processes end, and nobody hears of it
	DoOn     = "on"     // they have power again
	DoSleep  = "sleep"  // Machines are suspended: nothing runs there, and no monotonic clock goes on
	DoWake   = "wake"   // they wake up
	DoSignal = "signal" // the Pids, as far as they are of Machines
	DoWall   = "wall"   // the wall clock of Machines is off by By
	DoDisk   = "disk"   // the disks of Machines take By longer to sync
	DoSlow   = "slow"   // what comes from and to Machines takes By longer, but among them, and to and from To
	DoLose   = "lose"   // Percent of 100 packets are lost that come from and to Machines, but among them, and to and from To
	DoMute   = "mute"   // Percent of 100 replies are lost that come from or to Machines, on what was dialled at Port
	DoNames  = "names"  // Path is the /etc/hosts of whoever is started from now on
	DoServe  = "serve"  // who connects to At, which is no machine, is connected to the Port of one of Machines
	DoForget = "forget" // nobody is at At any more
	doHear   = "hear"   // tell who was heard
	DoEvict  = "evict"  // whoever on Machines holds a file below Path is killed
)

// done is the answer to a deed.
type done struct {
	Error string  `json:"error,omitempty"`
	Heard []Heard `json:"heard,omitempty"`
}

// obey does what was asked of the coordinator by now.
func (w *world) obey() {
	for len(w.orders) > 0 && w.orders[0].At <= w.now {
		f := w.orders[0]
		w.orders = w.orders[1:]
		switch f.Kind {
		case syn:
			w.answer(f, synAck, nil)
		case fin:
			w.answer(f, fin, nil)
		case payload:
			var d Deed
			err := json.Unmarshal(f.Payload, &d)
			if err == nil {
				err = w.do(d)
			}
			said := done{}
			if err != nil {
				said.Error = err.Error()
			}
			if d.Do == doHear {
				said.Heard = w.told()
			}
			text, _ := json.Marshal(said) // of strings and numbers
			w.answer(f, window, nil)
			w.answer(f, payload, append(text, '\n'))
		}
	}
}

// answer sends something back to who sent the frame.
func (w *world) answer(to frame, k kind, text []byte) {
	f := frame{Kind: k, SrcHost: to.DstHost, DstHost: to.SrcHost, SrcPort: to.DstPort, DstPort: to.SrcPort, Conn: to.Conn ^ acceptor, At: w.now, Payload: text}
	if k == window { // all of it was read
		f.SrcPort, f.DstPort = uint16(len(to.Payload)), uint16(len(to.Payload)>>16)
	}
	w.route(f)
}

// do does a deed.
func (w *world) do(d Deed) error {
	switch d.Do {
	case DoCut, DoMend:
		w.tear(d)
	case DoOff, DoOn:
		w.power(d)
	case DoSleep, DoWake:
		w.suspend(d)
	case DoSignal:
		return w.signalAll(d)
	case DoWall:
		for _, m := range d.Machines {
			w.walls[m] = d.By
		}
		for _, p := range w.on(d.Machines...) {
			w.setWall(p, w.soonest(p, w.now))
		}
	case DoDisk:
		for _, m := range d.Machines {
			w.disks[m] = d.By
		}
		for _, p := range w.on(d.Machines...) {
			p.insert(frame{Kind: disk, Conn: uint64(d.By), At: w.soonest(p, w.now)})
		}
	case DoSlow:
		for _, m := range d.Machines {
			w.slow[m] = slowness{d.By, append(slices.Concat(d.Machines, d.To), coordinatorHost)}
		}
	case DoLose:
		for _, m := range d.Machines {
			w.lossy[m] = lossiness{d.Percent, append(slices.Concat(d.Machines, d.To), coordinatorHost)}
		}
	case DoMute:
		for _, m := range d.Machines {
			w.mute[m] = muteness{d.Percent, d.Port}
		}
	case DoNames:
		w.names = d.Path
	case DoServe:
		w.services[d.At] = &behind{machines: d.Machines, port: d.Port, turn: w.services[d.At].next()}
	case DoForget:
		delete(w.services, d.At)
	case doHear: // the answer has it
	case DoEvict:
		for _, p := range w.on(d.Machines...) {
			if p.holds(d.Path) {
				w.end(p, w.now, int(syscall.SIGKILL))
			}
		}
	default:
		return fmt.Errorf("there is no deed %q", d.Do)
	}
	return nil
}

// told lists who was heard, in an order of its own.
func (w *world) told() (all []Heard) {
	for _, h := range w.heard { // order: sorted below
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b Heard) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Port, b.Port))
	})
	return all
}

// tear cuts machines off from others, or mends that.
func (w *world) tear(d Deed) {
	for _, from := range d.Machines {
		for _, to := range d.To {
			if d.Do == DoCut {
				w.cut[cut{path{from, to}, d.Port, d.But}] = true
			} else {
				delete(w.cut, cut{path{from, to}, d.Port, d.But})
			}
		}
	}
	w.release()
}

// power takes power away from machines, all at once, or gives it back. What waited for a cut
// to end was in the memory of who sent it, and is lost with that: a member that was cut off
// got from two that had lost their power since all that they had written meanwhile.
func (w *world) power(d Deed) {
	for _, m := range d.Machines {
		if d.Do == DoOff {
			w.dark[m] = true
			delete(w.asleep, m)
		} else {
			delete(w.dark, m)
			w.refuse(m)
		}
	}
	if d.Do == DoOff {
		w.held = slices.DeleteFunc(w.held, func(f frame) bool { return w.dark[f.SrcHost] || w.dark[f.DstHost] })
		for _, p := range w.on(d.Machines...) {
			w.end(p, w.now, int(syscall.SIGKILL))
		}
	}
}

// suspend has machines sleep, or wake up.
func (w *world) suspend(d Deed) {
	for _, m := range d.Machines {
		since, sleeps := w.asleep[m]
		switch {
		case d.Do == DoSleep && !sleeps:
			w.asleep[m] = w.now
			for _, p := range w.on(m) {
				w.sleep(p, w.now)
			}
		case d.Do == DoWake && sleeps:
			delete(w.asleep, m)
			for _, p := range w.on(m) {
				w.wake(p, w.now-since, w.now)
			}
		}
	}
}

func (w *world) signalAll(d Deed) error {
	for _, pid := range d.Pids {
		errno := w.signal(pid, d.Signal, w.now, func(p *process) bool { return slices.Contains(d.Machines, p.host) })
		if errno != 0 && errno != syscall.ESRCH {
			return errno
		}
	}
	return nil
}

// holds reports whether the process has a file below the directory open, or mapped.
func (p *process) holds(dir string) bool {
	of := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	links, _ := filepath.Glob(of + "fd/*")
	for _, link := range append(links, of+"cwd") {
		if to, err := os.Readlink(link); err == nil && (to == dir || strings.HasPrefix(to, dir+"/")) {
			return true
		}
	}
	maps, _ := os.ReadFile(of + "maps")
	return bytes.Contains(maps, []byte(" "+dir+"/"))
}

// on are the processes on machines.
func (w *world) on(machines ...byte) (all []*process) {
	for _, p := range w.processes {
		if slices.Contains(machines, p.host) {
			all = append(all, p)
		}
	}
	return all
}

// procfs is the directory that stands for a machine's /proc.
func (w *world) procfs(machine byte) string {
	return filepath.Join(w.Dir, "proc", strconv.Itoa(int(machine)))
}

// list puts a process into its machine's /proc: its command line, what is in its
// environment, its root directory, and its state. Of that only what anybody reads is true: the
// state, the parent, and when it started, in hundredths of a second.
func (w *world) list(p *process, o order, at int64) error {
	dir := filepath.Join(w.procfs(p.host), strconv.Itoa(p.pid))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	program, err := filepath.EvalSymlinks(filepath.Join("/", p.root, o.Name))
	if err != nil {
		return err
	}
	parent := 1
	if p.parent != nil {
		parent = p.parent.pid
	}
	p.stat = fmt.Sprintf("%d %d %d 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0\n", parent, p.pid, p.pid, (at-epoch)/1e7)
	return errors.Join(os.WriteFile(filepath.Join(dir, "cmdline"), zeroed(o.Args), 0o600), os.WriteFile(filepath.Join(dir, "environ"), zeroed(o.Env), 0o600),
		os.Symlink(program, filepath.Join(dir, "exe")), os.Symlink(filepath.Join("/", p.root), filepath.Join(dir, "root")), w.relist(p))
}

func zeroed(lines []string) []byte { return []byte(strings.Join(lines, "\x00") + "\x00") }

// relist tells the process's state anew.
func (w *world) relist(p *process) error {
	state := "S"
	if p.stopped {
		state = "T"
	}
	text := fmt.Sprintf("%d (%s) %s %s", p.pid, p.name, state, p.stat)
	return os.WriteFile(filepath.Join(w.procfs(p.host), strconv.Itoa(p.pid), "stat"), []byte(text), 0o600)
}

func (w *world) unlist(p *process) {
	_ = os.RemoveAll(filepath.Join(w.procfs(p.host), strconv.Itoa(p.pid)))
}

// Orders is how a process of a world asks for deeds.
type Orders struct {
	mu sync.Mutex
	c  net.Conn
	r  *bufio.Reader
}

// Order reaches the coordinator.
func Order(ctx context.Context) (*Orders, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(Address(coordinatorHost).String(), "1"))
	if err != nil {
		return nil, fmt.Errorf("reaching the coordinator: %w", err)
	}
	return &Orders{c: c, r: bufio.NewReader(c)}, nil
}

// Do has a deed done, and returns once it is.
func (o *Orders) Do(d Deed) error {
	_, err := o.ask(d)
	return err
}

// Heard lists who has spoken to which port of another machine, and how.
func (o *Orders) Heard() ([]Heard, error) {
	said, err := o.ask(Deed{Do: doHear})
	return said.Heard, err
}

func (o *Orders) ask(d Deed) (said done, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text, err := json.Marshal(d)
	if err != nil {
		return said, err
	}
	if _, err := o.c.Write(text); err != nil {
		return said, fmt.Errorf("ordering %s: %w", d.Do, err)
	}
	line, err := o.r.ReadBytes('\n')
	if err != nil {
		return said, fmt.Errorf("ordering %s: %w", d.Do, err)
	}
	if err := json.Unmarshal(bytes.TrimSpace(line), &said); err != nil {
		return said, err
	}
	if said.Error != "" {
		return said, fmt.Errorf("ordering %s: %s", d.Do, said.Error)
	}
	return said, nil
}

// Close ends it.
func (o *Orders) Close() error { return o.c.Close() }

// Running are the pids of what runs on a machine, as its /proc has them, in the order of
// their start.
func Running(machine byte) (pids []int, dir string) {
	dir = filepath.Join(os.Getenv(TableEnv), "proc", strconv.Itoa(int(machine)))
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, dir
}
