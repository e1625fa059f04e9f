// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/needs"
)

// TestWaitingForAProcessorIsCounted lets more processes spin than there are
// processors, and looks at what one of them waits.
func TestWaitingForAProcessorIsCounted(t *testing.T) {
	needs.RealTime(t)
	if _, ok := runDelay("/proc/self/schedstat"); !ok {
		t.Skip("SKIPPED: this kernel keeps no account of waiting (CONFIG_SCHED_INFO)")
	}
	var spins []*exec.Cmd
	for range 4 * runtime.NumCPU() {
		spin := exec.Command("sh", "-c", "while :; do :; done")
		require.NoError(t, spin.Start())
		t.Cleanup(func() { _ = spin.Process.Kill(); _ = spin.Wait() })
		spins = append(spins, spin)
	}
	sleeper := exec.Command("sleep", "60")
	require.NoError(t, sleeper.Start())
	t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	time.Sleep(200 * time.Millisecond)

	waits := func(pid int) time.Duration {
		p := pace{}
		process := []string{strconv.Itoa(pid)}
		assert.Zero(t, p.lost(process), "what was before isn't counted")
		time.Sleep(time.Second)
		return p.lost(process)
	}
	assert.Greater(t, waits(spins[0].Process.Pid), 300*time.Millisecond, "one of four has a processor")
	assert.Less(t, waits(sleeper.Process.Pid), 100*time.Millisecond, "who waits for something else isn't starved, however busy the host is")
	assert.Zero(t, (&pace{}).lost([]string{strconv.Itoa(os.Getpid())}))
}

func TestOnlyWhatIsMuchIsNoted(t *testing.T) {
	var p pace
	at := func(d time.Duration) ringproof.Instant { return ringproof.Instant(d) }
	p.note(ringproof.Span{From: 0, To: at(beat)}, little)
	assert.Empty(t, p.all(), "a run waits a little on any host")
	p.note(ringproof.Span{From: at(beat), To: at(2 * beat)}, 3*beat)
	all := p.all()
	require.Len(t, all, 1)
	assert.Equal(t, beat, all[0].Lost.Std(), "never more than there was")
}

// TestALateTickIsCounted: on a host that stood still for three seconds no process waited
// for a processor, and only the clock tells.
func TestALateTickIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		began, over := time.Now(), make(chan struct{})
		now := func() ringproof.Instant {
			at := time.Since(began)
			if at > time.Second {
				at += 3 * time.Second
			}
			return ringproof.Instant(at)
		}
		go p.keep(over, now, func() []string { return nil })
		time.Sleep(5 * time.Second)
		close(over)
		synctest.Wait()
		all := p.all()
		require.Len(t, all, 1)
		assert.InDelta(t, 3*time.Second, all[0].Lost.Std(), float64(2*tick))
		assert.InDelta(t, time.Second, all[0].From.Sub(0), float64(beat))
	})
}

func TestPressureIsWhatWasWaitedSince(t *testing.T) {
	waited, ok := someWaited("some avg10=0.00 avg60=0.24 avg300=10.60 total=3474805666\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n")
	assert.True(t, ok)
	assert.Equal(t, 3474805666*time.Microsecond, waited)
	for _, text := range []string{"", "full avg10=0.00 avg60=0.00 avg300=0.00 total=7", "some avg10=0.00"} {
		_, ok := someWaited(text)
		assert.False(t, ok, text)
	}
	before := ringproof.Pressure{"io": ringproof.Duration(time.Second)}
	now := ringproof.Pressure{"io": ringproof.Duration(3 * time.Second), "cpu": ringproof.Duration(time.Minute)}
	assert.Equal(t, ringproof.Pressure{"io": ringproof.Duration(2 * time.Second)}, since(before, now), "of what was not known before nobody knows how much it is since")
}
