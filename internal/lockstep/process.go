// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package lockstep

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The environment by which a process knows where it is; and by which who starts one says
// where that is to be. What has none of them runs where its parent does.
const (
	lockstepEnv = "LOCKSTEP"
	placeEnv    = "LOCKSTEP_PLACE"
	MachineEnv  = "LOCKSTEP_MACHINE" // the machine's number
	RootEnv     = "LOCKSTEP_ROOT"    // a directory that the process has for its root
	hostnameEnv = "HOSTNAME"         // what it takes for the machine's name
)

// process is one life of one process.
type process struct {
	life   uint16
	host   byte
	root   string // what it has for its root; "": the host's
	name   string
	pid    int
	parent *process
	cmd    *exec.Cmd
	sock   *socket // nil: it has ended
	errors *tail   // what it printed last, if nobody else reads that
	pipes  []int   // ends of those that it writes to, and its parent may read from
	input  []int   // and of that which it reads from

	clock   int64 // its own, as all that is kept here by the world's
	timer   int64 // when its next one is due; 0: it has none
	inbox   []frame
	lag     int64 // by how much its monotonic clock is behind the world's: for so long its machine has slept
	stopped bool
	asleep  bool   // its machine sleeps
	jump    int64  // to where its clock jumps before it goes on; 0: nowhere
	stat    string // the end of its line in /proc

	heavy atomic.Bool // it took more memory than there is for it, and was ended
	light func()      // stops looking whether it does
}

func (p *process) alive() bool { return p.sock != nil }

// due is when the process next has something to do.
func (p *process) due() int64 {
	switch {
	case p.stopped || p.asleep:
		return math.MaxInt64
	case p.jump != 0:
		return p.jump
	}
	due := int64(math.MaxInt64)
	if p.timer != 0 {
		due = p.timer
	}
	if len(p.inbox) > 0 {
		due = min(due, p.inbox[0].At)
	}
	return max(due, p.clock)
}

// insert queues a frame by its time, after those of the same time.
func (p *process) insert(f frame) {
	i := sort.Search(len(p.inbox), func(i int) bool { return p.inbox[i].At > f.At })
	p.inbox = slices.Insert(p.inbox, i, f)
}

// forks is locked by who forks, and for reading by who has a process run. Between fork and
// exec a child has copies of all that is open here: ends of pipes of other worlds, too, and a
// process that is to read one of those to its end would find none.
var forks sync.RWMutex

// fork starts the process while nobody runs; forks is locked for reading.
func (p *process) fork() error {
	forks.RUnlock()
	defer forks.RLock()
	forks.Lock()
	defer forks.Unlock()
	return p.cmd.Start()
}

// start starts a process and lets it run its first instant.
func (w *world) start(p *process, o order, files []*os.File, at int64) error {
	ours, theirs, err := pair(w.Patience)
	if err != nil {
		return err
	}
	w.lives++
	p.life, p.pid = w.lives, 100+int(w.lives)
	p.cmd = &exec.Cmd{Path: o.Name, Args: o.Args, Dir: o.Dir, Env: w.environment(p, o), ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Chroot: p.root}}
	p.give(files)
	err = p.fork()
	theirs.Close()
	if err != nil {
		ours.close()
		return err
	}
	p.light = p.weigh(w.Memory)
	ours.hunger = hunger{pid: p.cmd.Process.Pid, patience: w.Patience}
	p.sock = ours
	w.processes = append(w.processes, p)
	w.processed++
	w.note(at, "starts", p, p.pid)
	if err := w.list(p, o, at); err != nil {
		w.end(p, at, -1)
		return err
	}
	// A program that has no inside doesn't answer: it runs to its end in no time. Whether
	// one that does is there still shows when it is heard.
	if _, err := ours.receive(); err == nil {
		p.clock = at
		_ = ours.send(batch{A: at})
	}
	w.hear(p, at)
	return nil
}

// give has the process use these files as its own; without them what it says is kept, and
// its end of it told if it gets stuck.
func (p *process) give(files []*os.File) {
	if len(files) > 0 && files[0] != nil {
		p.cmd.Stdin = files[0]
	}
	if len(files) < 3 {
		p.errors = &tail{}
		p.cmd.Stdout, p.cmd.Stderr = p.errors, p.errors
		return
	}
	p.cmd.Stdout, p.cmd.Stderr = files[1], files[2]
}

// environment is that of a process: its own, and where it is.
func (w *world) environment(p *process, o order) []string {
	files := map[string]string{"/proc": w.procfs(p.host)}
	if w.names != "" {
		files["/etc/hosts"] = w.names
	}
	if p == w.first { // which is the host's as much as the world's
		files = nil
	}
	place, err := json.Marshal(map[string]any{"Seed": w.Seed, "Life": p.life, "Host": p.host, "Pid": p.pid, "Name": hostname(p, o), "Wall": w.walls[p.host], "Sync": w.Sync, "Disk": w.disks[p.host], "Files": files})
	if err != nil {
		panic(err) // of numbers and strings
	}
	all := slices.DeleteFunc(slices.Clone(o.Env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains([]string{lockstepEnv, placeEnv, MachineEnv, RootEnv, "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"}, name)
	})
	if p == w.first {
		all = append(all, TableEnv+"="+w.Dir)
	}
	return append(all, fmt.Sprintf("%s=%d.%d", lockstepEnv, w.Seed, p.life), placeEnv+"="+string(place),
		"GODEBUG=asyncpreemptoff=1,asynctimerchan=0,gcstoptheworld=2", "GOGC=off", "GOMAXPROCS=1", "GOTRACEBACK=single")
}

// reap ends the process for good, and returns its wait status.
func (p *process) reap() int {
	if p.sock == nil {
		return 0
	}
	p.light()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // how it ended is in its state
	p.sock.close()
	p.sock = nil
	p.letGo()
	return int(p.cmd.ProcessState.Sys().(syscall.WaitStatus)) & 0xffff
}

// letGo closes this side's ends of the process's pipes.
func (p *process) letGo() {
	for _, fd := range slices.Concat(p.pipes, p.input) {
		unix.Close(fd)
	}
	p.pipes, p.input = nil, nil
}

// quit has the process print what its goroutines wait for, and returns that if nobody else
// reads it.
func (p *process) quit() string {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	defer time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() }).Stop() // some heed no signal
	_ = p.cmd.Wait()
	return p.printed()
}

// printed is what the process printed last.
func (p *process) printed() string {
	if p.errors == nil {
		return "(its goroutines are in its own log)"
	}
	return p.errors.String()
}

// end is a process's death, with the wait status; -1: that which the kernel tells. Whoever
// it was connected to hears of it, unless its machine has no power.
func (w *world) end(p *process, at int64, status int) {
	if !p.alive() {
		return
	}
	piped := len(p.pipes) > 0
	if told := p.reap(); status < 0 {
		status = told
	}
	w.processes = slices.DeleteFunc(w.processes, func(q *process) bool { return q == p })
	if p.heavy.Load() && w.failed == nil {
		w.failed = w.tooHeavy(p)
	}
	w.note(at, "ends", p, status)
	w.unlist(p)
	w.hangUp(p, at)
	for _, q := range w.processes {
		if q.parent == p {
			q.parent = nil
		}
	}
	if p == w.first {
		w.status = syscall.WaitStatus(status).ExitStatus()
	}
	if q := p.parent; q != nil && q.alive() {
		if piped {
			w.poke(q, at)
		}
		q.insert(frame{Kind: exited, Conn: uint64(p.pid), SrcPort: uint16(status), At: w.soonest(q, at)})
	}
}

// soonest is when the process can hear of what happened, which is no sooner than by a frame.
func (w *world) soonest(p *process, at int64) int64 { return max(at, p.clock) + int64(w.Latency) }

// poke has a process look into its pipes.
func (w *world) poke(p *process, at int64) {
	if p != nil && p.alive() {
		p.insert(frame{Kind: poked, At: w.soonest(p, at)})
	}
}

// grant lets a process run until then.
func (w *world) grant(p *process, until int64) {
	b := batch{A: until - p.lag}
	if p.jump != 0 {
		b.B, p.jump = p.jump-p.lag, 0
	}
	n := sort.Search(len(p.inbox), func(i int) bool { return p.inbox[i].At > until })
	b.Frames, p.inbox = p.inbox[:n:n], p.inbox[n:]
	for i := range b.Frames {
		b.Frames[i].At -= p.lag
	}
	w.grants++
	forks.RLock()
	defer forks.RUnlock()
	if err := p.sock.send(b); err != nil {
		w.end(p, until, -1)
		return
	}
	w.hear(p, until)
}

// hear hears a process out: what it calls for is done at once, and nobody else runs until it
// is idle. One that dies meanwhile died at until.
func (w *world) hear(p *process, until int64) {
	for p.alive() {
		b, err := p.sock.receive()
		switch {
		case errors.Is(err, syscall.EAGAIN):
			w.failed = w.stuck(fmt.Sprintf("%s has not become idle in %v of a processor's time", p.name, w.Patience), slices.Compact([]*process{p, w.first})...)
			return
		case err != nil:
			w.end(p, until, -1)
			return
		}
		for _, f := range b.Frames {
			f.At += p.lag
			w.take(p, f)
		}
		if b.B == calls {
			continue
		}
		if p.clock, p.timer = b.A+p.lag, b.B; p.timer != 0 {
			p.timer += p.lag
		}
		w.pokeAll(p)
		return
	}
}

// pokeAll pokes those who may read from a pipe what the process wrote, or that it writes no more.
func (w *world) pokeAll(p *process) {
	if slices.ContainsFunc(p.pipes, holds) {
		w.poke(p.parent, p.clock)
	}
	for _, child := range w.processes {
		if child.parent == p && slices.ContainsFunc(child.input, readable) {
			w.poke(child, p.clock)
		}
	}
}

// holds reports whether there is something in a pipe, by either of its ends.
func holds(fd int) bool {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	return err == nil && n > 0
}

// readable reports whether a read from a pipe would not block.
func readable(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// take has happen what a process sent.
func (w *world) take(p *process, f frame) {
	if !p.alive() {
		return
	}
	if f.Kind < listen {
		w.route(f)
		return
	}
	number, errno := w.serve(p, f)
	if p.alive() {
		if err := p.sock.send(batch{A: int64(errno), B: number}); err != nil {
			w.end(p, f.At, -1)
		}
	}
}

// serve answers a call.
func (w *world) serve(p *process, f frame) (int64, syscall.Errno) {
	switch f.Kind {
	case listen:
		return 0, w.listen(p, uint16(f.Conn))
	case unlisten:
		delete(w.ports, port{p.host, uint16(f.Conn)})
	case exit:
		w.end(p, f.At, int(f.Conn&0xff)<<8)
	case spawn:
		return w.spawn(p, f)
	case service:
		return w.serviceAt(f.Conn)
	case kill:
		sig := syscall.Signal(f.Payload[0])
		if int(f.Conn) == p.pid && sig != 0 && sig != syscall.SIGSTOP { // it is asked for only when nobody there takes it
			w.end(p, f.At, int(sig))
			return 0, 0
		}
		return 0, w.signal(int(f.Conn), sig, f.At, func(q *process) bool { return q.host == p.host || q.parent == p })
	}
	return 0, 0
}

// spawn starts a child.
func (w *world) spawn(p *process, f frame) (int64, syscall.Errno) {
	var o order
	files := p.sock.take()
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err := json.Unmarshal(f.Payload, &o); err != nil {
		return 0, syscall.EINVAL
	}
	child := &process{host: o.machine(p.host), root: filepath.Join(p.root, o.has(RootEnv)), parent: p}
	child.name = fmt.Sprintf("%s@%d", filepath.Base(o.Name), child.host)
	if w.dark[child.host] {
		return 0, syscall.EHOSTDOWN
	}
	if len(files) > 0 {
		_ = unix.SetNonblock(int(files[0].Fd()), true) // or it would be read by a call that blocks, in real time
	}
	child.input, child.pipes = ends(files[:min(1, len(files))]), ends(files[min(1, len(files)):])
	if err := w.start(child, o, files, f.At); err != nil {
		child.letGo()
		var errno syscall.Errno
		if !errors.As(err, &errno) {
			errno = syscall.EIO
		}
		return 0, errno
	}
	return int64(child.pid), 0
}

// has is what the order has in its environment under a name; the last counts.
func (o order) has(name string) (value string) {
	for _, e := range o.Env {
		if of, found := strings.CutPrefix(e, name+"="); found {
			value = of
		}
	}
	return value
}

// machine is where the order is to be carried out.
func (o order) machine(otherwise byte) byte {
	if n, err := strconv.ParseUint(o.has(MachineEnv), 10, 8); err == nil {
		return byte(n)
	}
	return otherwise
}

// hostname is what a process takes for its machine's name.
func hostname(p *process, o order) string {
	return cmp.Or(o.has(hostnameEnv), fmt.Sprintf("machine-%d", p.host))
}

// width is how much a pipe holds, in bytes. Who writes more in one go waits for a reader, which
// waits for the writer to be idle. A pipe is 64 KiB wide else, and many that are wider would
// leave a user who isn't privileged with narrow ones.
const width = 256 << 10

// ends are descriptors by which it can be seen what is in those of the files that are pipes,
// which are made wide.
func ends(files []*os.File) (ends []int) {
	for _, f := range files {
		stat, err := f.Stat()
		if err != nil || stat.Mode()&os.ModeNamedPipe == 0 {
			continue
		}
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, width) // or it stays as it is
		if fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			ends = append(ends, fd)
		}
	}
	return ends
}

// signal signals a process, if it is one that can be.
func (w *world) signal(pid int, sig syscall.Signal, at int64, can func(*process) bool) syscall.Errno {
	i := slices.IndexFunc(w.processes, func(q *process) bool { return q.pid == pid && can(q) })
	if i < 0 {
		return syscall.ESRCH
	}
	switch p := w.processes[i]; sig {
	case 0:
	case syscall.SIGKILL:
		w.end(p, at, int(sig))
	case syscall.SIGSTOP:
		w.stop(p)
	case syscall.SIGCONT:
		w.goOn(p, at)
	default:
		p.insert(frame{Kind: signalled, Conn: uint64(sig), At: w.soonest(p, at)})
	}
	return 0
}

// stop stops a process: it is granted nothing.
func (w *world) stop(p *process) {
	p.stopped = true
	_ = w.relist(p) // it ends just now
}

// goOn lets a stopped process go on. Its clock jumps, and what came meanwhile comes now.
func (w *world) goOn(p *process, at int64) {
	if !p.stopped {
		return
	}
	p.stopped, p.jump = false, max(at, p.clock)
	for i := range p.inbox {
		p.inbox[i].At = max(p.inbox[i].At, p.jump)
	}
	_ = w.relist(p)
}

// sleep has a process stand still with its machine, and wake go on with it: in between no time has passed by
// its monotonic clock, so its timers are due as much later. What came meanwhile comes now.
func (w *world) sleep(p *process, at int64) {
	if !p.asleep {
		p.asleep = true
		w.note(at, "sleeps", p, p.pid)
	}
}

func (w *world) wake(p *process, slept, at int64) {
	if !p.asleep {
		return
	}
	p.asleep = false
	p.lag += slept
	p.clock += slept
	if p.timer != 0 {
		p.timer += slept
	}
	if p.jump != 0 { // it was stopped, and let go on meanwhile
		p.jump = max(p.jump, p.clock)
	}
	for i := range p.inbox {
		p.inbox[i].At = max(p.inbox[i].At, at)
	}
	w.setWall(p, at)
	w.note(at, "wakes", p, p.pid)
}

// setWall has a process read the wall clock of its machine from a moment on.
func (w *world) setWall(p *process, at int64) {
	p.insert(frame{Kind: wall, Conn: uint64(int64(w.walls[p.host]) + p.lag), At: at})
}

// socket is the coordinator's end of a process's socket, with the files that came along.
type socket struct {
	fd     int
	files  []*os.File
	buffer []byte
	ahead  bytes.Buffer
	hunger hunger
}

// pair makes a socket's two ends. Whoever doesn't answer for so long is stuck.
func pair(patience time.Duration) (ours *socket, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening a socket pair: %w", err)
	}
	wait := unix.NsecToTimeval(int64(patience))
	if err := unix.SetsockoptTimeval(fds[0], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return nil, nil, errors.Join(err, unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return &socket{fd: fds[0]}, os.NewFile(uintptr(fds[1]), "process"), nil
}

func (s *socket) close() {
	for _, f := range s.take() {
		f.Close()
	}
	unix.Close(s.fd)
}

// take returns the files that came along since.
func (s *socket) take() []*os.File {
	files := s.files
	s.files = nil
	return files
}

func (s *socket) receive() (b batch, err error) {
	s.hunger.fed()
	b, s.buffer, err = readBatch(s, s.buffer)
	return b, err
}

// Read reads ahead as much as there is.
func (s *socket) Read(p []byte) (int, error) {
	if s.ahead.Len() == 0 {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	return s.ahead.Read(p)
}

func (s *socket) fill() error {
	var chunk [64 << 10]byte
	var rights [256]byte
	for {
		n, k, _, _, err := unix.Recvmsg(s.fd, chunk[:], rights[:], unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN) && s.hunger.starved():
			continue
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		}
		s.ahead.Write(chunk[:n])
		return s.adopt(rights[:k])
	}
}

// adopt keeps the files that came along.
func (s *socket) adopt(rights []byte) error {
	messages, err := unix.ParseSocketControlMessage(rights)
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return err
		}
		for _, fd := range fds {
			s.files = append(s.files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return err
}

func (s *socket) send(b batch) error {
	for p := b.appendTo(nil); len(p) > 0; {
		n, err := unix.SendmsgN(s.fd, p, nil, nil, unix.MSG_NOSIGNAL)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		p = p[max(n, 0):]
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

const tailSize = 256 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(p), nil
}

func (t *tail) String() string { return string(t.text) }
