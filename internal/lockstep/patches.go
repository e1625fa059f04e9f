// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package lockstep

// goMinor is the Go whose standard library the patches fit. To follow a new one, change it
// and run TestPatches: it names each string that isn't found once.
const goMinor = "go1.26"

// patch replaces a piece of a file of the standard library that stands there once.
type patch struct{ file, old, new string }

// patches are all that differs in Go's own files, by what makes them needed. What they
// call is in inside/.
var patches = []patch{
	// Whether this process is in lockstep is asked of its environment.
	{"runtime/proc.go", "goenvs()\n", "goenvs()\n\tlockstepIn = gogetenv(LockstepEnv) != \"\"\n"},
	{"runtime/proc.go", "laying down the runtime\n\tfn()\n", "laying down the runtime\n\tif lockstepMain != nil {\n\t\tlockstepMain(fn)\n\t}\n\tfn()\n"},

	// A goroutine that is locked to its thread hands its P to and fro between threads, and
	// how many those become is the host's doing.
	{"runtime/proc.go", "lockOSThread()\n\n\tif mp != &m0", "if !lockstepIn {\n\t\tlockOSThread()\n\t}\n\n\tif mp != &m0"},
	{"runtime/proc.go", "needUnlock = false\n\tunlockOSThread()\n", "needUnlock = false\n\tif !lockstepIn {\n\t\tunlockOSThread()\n\t}\n"},
	// sysmon takes a P from a long syscall, or from a goroutine that runs long: by real time.
	{"runtime/proc.go", "if retake(now) != 0 {", "if !lockstepIn && retake(now) != 0 {"},
	// So does the scavenger.
	{"runtime/mgcscavenge.go", "for {\n\t\treleased, workTime := scavenger.run()\n", "for {\n\t\tif lockstepIn {\n\t\t\tscavenger.park()\n\t\t\tcontinue\n\t\t}\n\t\treleased, workTime := scavenger.run()\n"},
	// Every 61st choice of a goroutine looks elsewhere first, and what was chosen before the
	// bubble isn't the same in each run.
	{"runtime/proc.go", "if pp.schedtick%61 == 0 && !sched.runq.empty() {", "if pp.schedtick%61 == 0 && !sched.runq.empty() && !lockstepIn {"},

	// Chance: the seed of maps, what a goroutine draws, and which of several comes first.
	{"runtime/rand.go", "globalRand.state.Init(*seed)\n", "for i := range seed {\n\t\tseed[i] = byte(i) + 1\n\t}\n\tglobalRand.state.Init(*seed)\n"},
	{"runtime/rand.go", "mp := getg().m\n\tc := &mp.chacha8\n", "if lockstepSeeded && getg().bubble != nil {\n\t\treturn lockstepRand()\n\t}\n\tmp := getg().m\n\tc := &mp.chacha8\n"},
	{"runtime/select.go", "j := cheaprandn(uint32(norder + 1))", "j := lockstepRandn(uint32(norder + 1))"},
	{"runtime/sema.go", "s.ticket = cheaprand() | 1", "s.ticket = lockstepRandn(1<<31) | 1"},
	// A type assertion is remembered by one chance in 1024, in memory that is allocated for
	// it: all addresses after it move, and the orders of maps that are keyed by pointers. What
	// the runtime draws by itself is no chance of the seed's: its own locks draw, too, if two
	// threads meet there.
	{"runtime/iface.go", "if cheaprand()&1023 != 0 {\n\t\t// Only bother updating the cache ~1 in 1000 times.\n\t\treturn", "if lockstepRandn(1024) != 0 {\n\t\t// Only bother updating the cache ~1 in 1000 times.\n\t\treturn"},
	{"runtime/iface.go", "if cheaprand()&1023 != 0 {\n\t\t// Only bother updating the cache ~1 in 1000 times.\n\t\t//", "if lockstepRandn(1024) != 0 {\n\t\t// Only bother updating the cache ~1 in 1000 times.\n\t\t//"},
	{"runtime/iface.go", "if cheaprand()&uint32(oldC.Mask) != 0 {\n\t\t// As cache gets larger, choose to update it less often\n\t\t// so we can amortize the cost of building a new cache.", "if lockstepRandn(uint32(oldC.Mask)+1) != 0 {\n\t\t// As cache gets larger, choose to update it less often\n\t\t// so we can amortize the cost of building a new cache."},
	{"runtime/iface.go", "if cheaprand()&uint32(oldC.Mask) != 0 {\n\t\t// As cache gets larger, choose to update it less often\n\t\t// so we can amortize the cost of building a new cache\n", "if lockstepRandn(uint32(oldC.Mask)+1) != 0 {\n\t\t// As cache gets larger, choose to update it less often\n\t\t// so we can amortize the cost of building a new cache\n"},
	{"runtime/time.go", "t.rand = cheaprand()\n", "t.rand = cheaprand()\n\t\t\tif lockstepSeeded {\n\t\t\t\tt.rand = uint32(lockstepRand())\n\t\t\t}\n"},

	// Time: of package variables, in the bubble, and of a mutex that somebody waits for long.
	{"runtime/time.go", "return time_now()\n", "if lockstepIn && !lockstepSeeded {\n\t\treturn lockstepBegun()\n\t}\n\treturn time_now()\n"},
	{"runtime/time.go", "func time_runtimeNano() int64 {\n", "func time_runtimeNano() int64 {\n\tif lockstepIn && !lockstepSeeded {\n\t\treturn lockstepEpoch\n\t}\n"},
	{"runtime/time.go", "sec = bubble.now / (1000 * 1000 * 1000)\n\t\tnsec = int32(bubble.now % (1000 * 1000 * 1000))\n", "if lockstepIn {\n\t\t\treturn lockstepTime(bubble.now)\n\t\t}\n\t\tsec = bubble.now / (1000 * 1000 * 1000)\n\t\tnsec = int32(bubble.now % (1000 * 1000 * 1000))\n"},
	{"runtime/sema.go", "func internal_sync_nanotime() int64 {\n", "func internal_sync_nanotime() int64 {\n\tif b := getg().bubble; b != nil {\n\t\treturn b.now\n\t}\n"},
	{"runtime/synctest.go", "throw(\"time went backwards\")\n", "next = bubble.now // it jumped\n"},
	// Work takes time, also of one that asks again at once until time has passed for another.
	{"time/sleep.go", "func AfterFunc(d Duration, f func()) *Timer {\n", "func AfterFunc(d Duration, f func()) *Timer {\n\tif LockstepTimed != nil {\n\t\tLockstepTimed()\n\t}\n"},
	{"time/sleep.go", "func NewTimer(d Duration) *Timer {\n", "func NewTimer(d Duration) *Timer {\n\tif LockstepTimed != nil {\n\t\tLockstepTimed()\n\t}\n"},

	// The network: what stands for a socket is a field of the netFD, which each method asks
	// first. So a *net.TCPConn stays what it is.
	{"net/sock_posix.go", "s, err := sysSocket(family, sotype, proto)\n", "if fd, err, ours := lockstepSocket(ctx, net, family, sotype, laddr, raddr); ours {\n\t\treturn fd, err\n\t}\n\ts, err := sysSocket(family, sotype, proto)\n"},
	{"net/fd_posix.go", "raddr       Addr\n}", "raddr       Addr\n\n\tlockstep         LockstepConn\n\tlockstepListener Listener\n\tlockstepNumber   int\n}"},
	{"net/fd_posix.go", "runtime.SetFinalizer(fd, nil)\n", "if fd.lockstep != nil {\n\t\tlockstepForget(fd)\n\t\treturn fd.lockstep.Close()\n\t}\n\tif fd.lockstepListener != nil {\n\t\treturn fd.lockstepListener.Close()\n\t}\n\truntime.SetFinalizer(fd, nil)\n"},
	{"net/fd_posix.go", "err := fd.pfd.Shutdown(how)\n", "if fd.lockstep != nil && how == syscall.SHUT_RD {\n\t\treturn fd.lockstep.CloseRead()\n\t}\n\tif fd.lockstep != nil {\n\t\treturn fd.lockstep.CloseWrite()\n\t}\n\terr := fd.pfd.Shutdown(how)\n"},
	{"net/fd_posix.go", "n, err = fd.pfd.Read(p)\n", "if fd.lockstep != nil {\n\t\treturn fd.lockstep.Read(p)\n\t}\n\tn, err = fd.pfd.Read(p)\n"},
	{"net/fd_posix.go", "nn, err = fd.pfd.Write(p)\n", "if fd.lockstep != nil {\n\t\treturn fd.lockstep.Write(p)\n\t}\n\tnn, err = fd.pfd.Write(p)\n"},
	{"net/fd_posix.go", "return fd.pfd.SetDeadline(t)\n", "if fd.lockstep != nil {\n\t\treturn fd.lockstep.SetDeadline(t)\n\t}\n\treturn fd.pfd.SetDeadline(t)\n"},
	{"net/fd_posix.go", "return fd.pfd.SetReadDeadline(t)\n", "if fd.lockstep != nil {\n\t\treturn fd.lockstep.SetReadDeadline(t)\n\t}\n\treturn fd.pfd.SetReadDeadline(t)\n"},
	{"net/fd_posix.go", "return fd.pfd.SetWriteDeadline(t)\n", "if fd.lockstep != nil {\n\t\treturn fd.lockstep.SetWriteDeadline(t)\n\t}\n\treturn fd.pfd.SetWriteDeadline(t)\n"},
	{"net/fd_unix.go", "d, rsa, errcall, err := fd.pfd.Accept()\n", "if fd.lockstepListener != nil {\n\t\tc, err := fd.lockstepListener.Accept()\n\t\tif err != nil {\n\t\t\treturn nil, err\n\t\t}\n\t\treturn lockstepFD(fd.family, fd.net, c.(LockstepConn)), nil\n\t}\n\td, rsa, errcall, err := fd.pfd.Accept()\n"},
	{"net/tcpsock_posix.go", "if n, err, handled := spliceFrom(c.fd, r); handled {", "if c.fd.lockstep != nil {\n\t\treturn genericReadFrom(c, r)\n\t}\n\tif n, err, handled := spliceFrom(c.fd, r); handled {"},
	{"net/tcpsock_posix.go", "if n, err, handled := spliceTo(w, c.fd); handled {", "if c.fd.lockstep != nil {\n\t\treturn genericWriteTo(c, w)\n\t}\n\tif n, err, handled := spliceTo(w, c.fd); handled {"},
	option("net/tcpsockopt_posix.go", "func setNoDelay(fd *netFD, noDelay bool) error {\n"),
	option("net/tcpsockopt_unix.go", "func setKeepAliveIdle(fd *netFD, d time.Duration) error {\n"),
	option("net/tcpsockopt_unix.go", "func setKeepAliveInterval(fd *netFD, d time.Duration) error {\n"),
	option("net/tcpsockopt_unix.go", "func setKeepAliveCount(fd *netFD, n int) error {\n"),
	option("net/sockopt_posix.go", "func setReadBuffer(fd *netFD, bytes int) error {\n"),
	option("net/sockopt_posix.go", "func setWriteBuffer(fd *netFD, bytes int) error {\n"),
	option("net/sockopt_posix.go", "func setKeepAlive(fd *netFD, keepalive bool) error {\n"),
	option("net/sockopt_posix.go", "func setLinger(fd *netFD, sec int) error {\n"),
	{"net/rawconn.go", "err := c.fd.pfd.RawControl(f)\n", "if c.fd.lockstep != nil || c.fd.lockstepListener != nil {\n\t\treturn nil\n\t}\n\terr := c.fd.pfd.RawControl(f)\n"},
	{"net/rawconn.go", "err := c.fd.pfd.RawRead(f)\n", "if c.fd.lockstep != nil {\n\t\treturn lockstepRawRead(c.fd, f)\n\t}\n\terr := c.fd.pfd.RawRead(f)\n"},
	{"syscall/syscall_unix.go", "func Read(fd int, p []byte) (n int, err error) {\n", "func Read(fd int, p []byte) (n int, err error) {\n\tif fd >= LockstepFD && LockstepRead != nil {\n\t\treturn LockstepRead(fd, p)\n\t}\n"},

	// Processes and signals.
	{"os/exec_posix.go", "pid, h, e := syscall.StartProcess(name, argv, sysattr)\n", "if LockstepProcesses != nil {\n\t\tp, err := lockstepStart(name, argv, sysattr)\n\t\truntime.KeepAlive(attr)\n\t\treturn p, err\n\t}\n\tpid, h, e := syscall.StartProcess(name, argv, sysattr)\n"},
	{"os/exec_unix.go", "// Which type of Process do we have?\n\tif p.handle != nil {\n\t\t// pidfd\n\t\treturn p.pidfdWait()\n", "if LockstepProcesses != nil {\n\t\treturn p.lockstepWait()\n\t}\n\t// Which type of Process do we have?\n\tif p.handle != nil {\n\t\t// pidfd\n\t\treturn p.pidfdWait()\n"},
	{"os/exec_unix.go", "h, err := pidfdFind(pid)\n", "if LockstepProcesses != nil {\n\t\treturn newPIDProcess(pid), nil\n\t}\n\th, err := pidfdFind(pid)\n"},
	{"os/proc.go", "syscall.Exit(code)\n", "if LockstepProcesses != nil {\n\t\tLockstepProcesses.Exit(code)\n\t}\n\tsyscall.Exit(code)\n"},
	{"os/sys_linux.go", "var un syscall.Utsname\n", "if LockstepHostname != \"\" {\n\t\treturn LockstepHostname, nil\n\t}\n\tvar un syscall.Utsname\n"},
	{"os/signal/signal.go", "\tsignalWaitUntilIdle()\n", "\tif !lockstepIn {\n\t\tsignalWaitUntilIdle()\n\t}\n"},
	{"os/signal/signal_unix.go", "signal_disable(uint32(sig))\n", "if lockstepSet(sig, false) {\n\t\treturn\n\t}\n\tsignal_disable(uint32(sig))\n"},
	{"os/signal/signal_unix.go", "signal_enable(uint32(sig))\n", "if lockstepSet(sig, false) {\n\t\treturn\n\t}\n\tsignal_enable(uint32(sig))\n"},
	{"os/signal/signal_unix.go", "signal_ignore(uint32(sig))\n", "if lockstepSet(sig, true) {\n\t\treturn\n\t}\n\tsignal_ignore(uint32(sig))\n"},
	{"os/signal/signal_unix.go", "return signal_ignored(uint32(sig))\n", "if lockstepIn {\n\t\treturn lockstepIgnored[sig]\n\t}\n\treturn signal_ignored(uint32(sig))\n"},
	{"syscall/zsyscall_linux_amd64.go", "r0, _ := rawSyscallNoError(SYS_GETPID, 0, 0, 0)\n", "if LockstepPid != 0 {\n\t\treturn LockstepPid\n\t}\n\tr0, _ := rawSyscallNoError(SYS_GETPID, 0, 0, 0)\n"},
	{"syscall/zsyscall_linux_amd64.go", "func Kill(pid int, sig Signal) (err error) {\n", "func Kill(pid int, sig Signal) (err error) {\n\tif LockstepKill != nil {\n\t\treturn LockstepKill(pid, sig)\n\t}\n"},
	// A pipe is looked into when whoever holds the clock says so, not when a poller does.
	{"internal/poll/fd_poll_runtime.go", "type pollDesc struct {", "// LockstepWait, where it is set, waits until a pipe may have something; with true it ends\n// such waits.\nvar LockstepWait func(wake bool)\n\n// LockstepWrote, where it is set, is called before each write.\nvar LockstepWrote func()\n\ntype pollDesc struct {"},
	{"internal/poll/fd_poll_runtime.go", "res := runtime_pollWait(pd.runtimeCtx, mode)\n", "if LockstepWait != nil {\n\t\tLockstepWait(false)\n\t\treturn convertErr(runtime_pollReset(pd.runtimeCtx, mode), isFile)\n\t}\n\tres := runtime_pollWait(pd.runtimeCtx, mode)\n"},
	{"internal/poll/fd_poll_runtime.go", "runtime_pollUnblock(pd.runtimeCtx)\n", "runtime_pollUnblock(pd.runtimeCtx)\n\tif LockstepWait != nil {\n\t\tLockstepWait(true)\n\t}\n"},
	// Nobody takes its turn from a goroutine that never waits. One that asks again at once what
	// another is to answer, and says so each time, would ask for ever: etcd does, that comes
	// back to more than 5000 entries and wants its name written (publishV3).
	{"internal/poll/fd_unix.go", "n, err := ignoringEINTRIO(syscall.Write, fd.Sysfd, p[nn:max])\n", "if LockstepWrote != nil {\n\t\t\tLockstepWrote()\n\t\t}\n\t\tn, err := ignoringEINTRIO(syscall.Write, fd.Sysfd, p[nn:max])\n"},

	// Files: the processes of a machine are its own, and a disk takes its time. Without that
	// no two agents would ever meet in a store.
	{"syscall/syscall_linux.go", "return openat(_AT_FDCWD, path, mode|O_LARGEFILE, perm)\n", "return openat(_AT_FDCWD, lockstepPath(path), mode|O_LARGEFILE, perm)\n"},
	{"syscall/syscall_linux.go", "return openat(dirfd, path, flags|O_LARGEFILE, mode)\n", "return openat(dirfd, lockstepPath(path), flags|O_LARGEFILE, mode)\n"},
	{"syscall/syscall_linux_amd64.go", "return fstatat(_AT_FDCWD, path, stat, 0)\n", "return fstatat(_AT_FDCWD, lockstepPath(path), stat, 0)\n"},
	{"syscall/syscall_linux_amd64.go", "return fstatat(_AT_FDCWD, path, stat, _AT_SYMLINK_NOFOLLOW)\n", "return fstatat(_AT_FDCWD, lockstepPath(path), stat, _AT_SYMLINK_NOFOLLOW)\n"},
	{"internal/poll/fd_fsync_posix.go", "defer fd.decref()\n", "defer fd.decref()\n\tif syscall.LockstepSync != nil {\n\t\tsyscall.LockstepSync()\n\t}\n"},
	{"syscall/zsyscall_linux_amd64.go", "func Fdatasync(fd int) (err error) {\n", "func Fdatasync(fd int) (err error) {\n\tif LockstepSync != nil {\n\t\tLockstepSync()\n\t}\n"},
}

// option is a socket's option, which means nothing where there is no socket.
func option(file, function string) patch {
	return patch{file, function, function + "\tif fd.lockstep != nil {\n\t\treturn nil\n\t}\n"}
}
