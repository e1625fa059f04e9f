// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build lockstep

package runtime

import "internal/runtime/atomic"

// LockstepEnv names the environment variable that puts a process into lockstep: the
// world's seed and which life this is, which is all that may tell two processes apart.
const LockstepEnv = "LOCKSTEP"

// lockstepIn reports whether this process is in lockstep. It is known before the first
// package is initialized: a thread made since is an allocation, and moves all addresses.
var lockstepIn bool

var (
	lockstepSeeded bool          // the bubble has begun
	lockstepDraws  atomic.Uint64 // the state of its chance
	lockstepBefore atomic.Uint64 // and of the chance outside
	lockstepMain   func(main func())
	lockstepOffset int64 // of the wall clock, in nanoseconds
)

// LockstepMain has f run the program's main, whatever that is.
func LockstepMain(f func(main func())) { lockstepMain = f }

// LockstepSeed begins the bubble: chance that orders its goroutines is drawn from one
// seeded stream, and whoever waits for another goroutine of it counts as idle. A mutex
// is such a wait, and so is any channel: none is shared with a goroutine outside.
func LockstepSeed(seed uint64) {
	lockstepDraws.Store(seed)
	lockstepSeeded = true
	for _, reason := range []waitReason{waitReasonSyncMutexLock, waitReasonSyncRWMutexRLock, waitReasonSyncRWMutexLock,
		waitReasonSelect, waitReasonChanReceive, waitReasonChanSend, waitReasonSyncWaitGroupWait} {
		isIdleInSynctest[reason] = true
	}
}

// LockstepNextTimer is when the bubble's next timer is due, in nanoseconds of its clock;
// 0: it has none.
func LockstepNextTimer() int64 { return getg().bubble.timers.wakeTime() }

// LockstepJump sets the bubble's clock forward. Timers that were due by then fire late, as
// those of a process do that was stopped.
func LockstepJump(to int64) {
	b := getg().bubble
	lock(&b.mu)
	b.now = max(b.now, to)
	unlock(&b.mu)
}

// LockstepWall sets how far the wall clock is off, in nanoseconds.
func LockstepWall(offset int64) { lockstepOffset = offset }

// LockstepNow is the bubble's clock, which no wall clock bends.
func LockstepNow() int64 { return getg().bubble.now }

// LockstepHeap is how many bytes the heap holds, garbage included: the same in each run,
// as it grows by what is allocated.
func LockstepHeap() uint64 { return gcController.heapLive.Load() }

// LockstepInBubble reports whether the goroutine is in the bubble. A finalizer is not.
func LockstepInBubble() bool { return getg().bubble != nil }

// lockstepEpoch is when a bubble begins: 2000-01-01 in nanoseconds.
const lockstepEpoch = 946684800 * 1000 * 1000 * 1000

// lockstepBegun is the time of package variables: fixed, and another in each life, as
// raft of etcd 3.5 seeds its chance with it.
func lockstepBegun() (sec int64, nsec int32, mono int64) {
	for _, c := range []byte(gogetenv(LockstepEnv)) {
		nsec = nsec*31 + int32(c)
	}
	return lockstepEpoch / 1e9, nsec & 0xfffffff, 0
}

// lockstepTime is time.now in the bubble.
func lockstepTime(now int64) (sec int64, nsec int32, mono int64) {
	wall := now + lockstepOffset
	return wall / 1e9, int32(wall % 1e9), now
}

// lockstepRandn is cheaprandn where chance shows in what a process does: in the order of
// goroutines, or in where things lie. From what cheaprandn draws, the runtime's locks
// draw too when threads meet there, which is the host's doing.
func lockstepRandn(n uint32) uint32 {
	if !lockstepIn {
		return cheaprandn(n)
	}
	draws := &lockstepBefore
	if lockstepSeeded && getg().bubble != nil {
		draws = &lockstepDraws
	}
	return uint32((uint64(uint32(lockstepDraw(draws)>>32)) * uint64(n)) >> 32)
}

//go:nosplit
func lockstepRand() uint64 { return lockstepDraw(&lockstepDraws) }

//go:nosplit
func lockstepDraw(draws *atomic.Uint64) uint64 { // splitmix64
	z := draws.Add(0x1e3779b97f4a7c15) // odd, and no overflow of its argument
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}
