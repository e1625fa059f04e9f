// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build lockstep

// Package lockstep runs a program in a bubble whose clock, network and processes a
// coordinator holds. It is a part of the standard library in an overlay, and begins before
// main in whatever serves or asks by HTTP.
package lockstep

import (
	"crypto/rand"
	"encoding/json"
	"internal/poll"
	"internal/synctest"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
)

// coordinator is the descriptor of the socket by which the coordinator is reached.
const coordinator = descriptor(3)

// lost is the exit code of a process whose coordinator is gone.
const lost = 9

func init() {
	if os.Getenv(runtime.LockstepEnv) != "" {
		runtime.LockstepMain(enter)
	}
}

// place is where a process is, as the coordinator says in its environment.
type place struct {
	Seed  uint64
	Life  uint16 // each life of each process has its own
	Host  byte   // processes of one machine share its address
	Pid   int
	Name  string // the machine's
	Files map[string]string
	Wall  time.Duration // how far the wall clock of the machine is off
	Sync  time.Duration // a disk takes a quarter of it to sync, and up to as much more
	Disk  time.Duration // and that of the machine so much longer
}

// process is this one.
type process struct {
	place
	in        *reader
	mu        sync.Mutex
	out       []frame // since the coordinator was last told
	listeners map[uint16]*listener
	ends      map[uint64]*end
	dials     uint64
	writes    int
	timers    int    // made since
	timersAt  int64  // of the bubble's clock
	port      uint16 // the last that was given to who asked for none
	children  map[int]*child
	poked     *sync.Cond
}

var self *process

// enter runs a program's main in a bubble. It does not return.
func enter(main func()) {
	var p place
	if err := json.Unmarshal([]byte(os.Getenv(runtime.LockstepEnv+"_PLACE")), &p); err != nil {
		println("lockstep: its place:", err.Error())
		syscall.Exit(lost)
	}
	runtime.GOMAXPROCS(1)
	runtime.MemProfileRate = 0
	debug.SetGCPercent(-1)
	rand.LockstepReader(mathrand.NewChaCha8([32]byte{byte(p.Seed), byte(p.Seed >> 8), byte(p.Seed >> 16), byte(p.Life), byte(p.Life >> 8)}))
	signal.LockstepKeepOut()
	runtime.GC() // the first one starts its worker, and that moves goroutines between threads
	runtime.LockstepSeed(p.Seed<<16 | uint64(p.Life))
	runtime.LockstepWall(int64(p.Wall))
	synctest.Run(func() {
		self = p.stand()
		self.live(main)
	})
}

// stand puts this package in the kernel's place.
func (p place) stand() *process {
	s := &process{place: p, in: &reader{from: coordinator, buffer: make([]byte, 256<<10)}, listeners: map[uint16]*listener{},
		ends: map[uint64]*end{}, children: map[int]*child{}, port: 32768 + p.Life%32*1000}
	s.poked = sync.NewCond(&s.mu)
	syscall.CloseOnExec(int(coordinator))
	net.LockstepNet, os.LockstepProcesses = s, s
	os.LockstepPipes(s.pipe)
	poll.LockstepWrote = s.wrote
	time.LockstepTimed = s.timed
	os.LockstepHostname = p.Name
	syscall.LockstepKill, syscall.LockstepPid, syscall.LockstepFiles = s.kill, p.Pid, p.Files
	if p.Sync > 0 {
		chance := mathrand.New(mathrand.NewPCG(p.Seed, uint64(p.Life)))
		syscall.LockstepSync = func() {
			if runtime.LockstepInBubble() {
				time.Sleep(s.Disk + p.Sync/4 + time.Duration(chance.Int64N(int64(p.Sync))))
			}
		}
	}
	return s
}

// turn is after how many writes of the process others of its goroutines have theirs.
const turn = 64

func (p *process) wrote() {
	if p.writes++; p.writes%turn == 0 && runtime.LockstepInBubble() {
		runtime.Gosched()
	}
}

// A process that makes so many timers at one moment has worked for a while, and so much time is
// taken to have passed: an etcd that comes back to more than 5000 entries asks, each time with a timer,
// until it has applied them, which waits for its disk (publishV3). Its log tells of one in a hundred.
// While the clock stood it asked for ever, and no memory was enough.
const (
	busy  = 1000
	takes = time.Millisecond
)

func (p *process) timed() {
	if !runtime.LockstepInBubble() {
		return
	}
	if now := runtime.LockstepNow(); now != p.timersAt {
		p.timers, p.timersAt = 0, now
	}
	if p.timers++; p.timers%busy == 0 {
		time.Sleep(takes)
	}
}

// garbage is how many bytes are allocated at least between two collections.
const garbage = 32 << 20

// live tells the coordinator what was done, hears until when it may go on and what comes
// until then, and lets that happen: again and again.
func (p *process) live(main func()) {
	var in, out []byte
	begun, heap := false, uint64(0)
	for {
		synctest.Wait()
		if runtime.LockstepHeap() > heap+max(heap, garbage) { // a quiet point
			runtime.GC()
			heap = runtime.LockstepHeap()
		}
		b := batch{A: runtime.LockstepNow(), B: runtime.LockstepNextTimer()}
		p.mu.Lock()
		b.Frames, p.out = p.out, nil
		p.mu.Unlock()
		out = b.appendTo(out[:0])
		if _, err := coordinator.Write(out); err != nil {
			syscall.Exit(lost)
		}
		granted, buffer, err := readBatch(p.in, in)
		if in = buffer; err != nil {
			syscall.Exit(lost)
		}
		if !begun {
			begun = true
			until(granted.A)
			go func() {
				main()
				os.Exit(0)
			}()
			continue
		}
		if granted.B != 0 {
			runtime.LockstepJump(granted.B)
		}
		for i := range granted.Frames {
			until(granted.Frames[i].At)
			p.take(&granted.Frames[i])
		}
		until(granted.A)
	}
}

// until sleeps until a time of the bubble's clock.
func until(at int64) {
	if d := at - runtime.LockstepNow(); d > 0 {
		time.Sleep(time.Duration(d))
	}
}

// take has happen what the coordinator says.
func (p *process) take(f *frame) {
	switch f.Kind {
	case signalled:
		if sig := syscall.Signal(f.Conn); !signal.LockstepDeliver(sig) { // nobody here wants it, so it ends this process
			p.call(kill, uint64(p.Pid), []byte{byte(sig)}, nil)
		}
	case exited:
		p.ended(int(f.Conn), syscall.WaitStatus(f.SrcPort))
	case poked:
		p.pipe(true)
	case wall:
		runtime.LockstepWall(int64(f.Conn))
	case disk:
		p.Disk = time.Duration(f.Conn)
	default:
		p.deliver(f)
	}
}

// send sends a frame with what is told next.
func (p *process) send(f frame) {
	f.At = runtime.LockstepNow()
	p.mu.Lock()
	p.out = append(p.out, f)
	p.mu.Unlock()
}

// call asks the coordinator for what must be done at once. All else in the world stands
// still meanwhile, and in this process too: its only P stays with the goroutine that reads.
// What was sent before goes before it; p.mu may be held.
func (p *process) call(k kind, number uint64, of []byte, files []int) (int64, syscall.Errno) {
	now := runtime.LockstepNow()
	b := batch{A: now, B: calls, Frames: append(p.out, frame{Kind: k, SrcHost: p.Host, Conn: number, At: now, Payload: of})}
	p.out = nil
	out := b.appendTo(nil)
	if len(files) > 0 { // they travel with the first bytes
		n, err := syscall.SendmsgN(int(coordinator), out, syscall.UnixRights(files...), nil, 0)
		if err != nil {
			syscall.Exit(lost)
		}
		out = out[n:]
	}
	if _, err := coordinator.Write(out); err != nil {
		syscall.Exit(lost)
	}
	answer, _, err := readBatch(p.in, nil)
	if err != nil {
		syscall.Exit(lost)
	}
	return answer.B, syscall.Errno(answer.A)
}
