// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
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
	p.note(ringproof.Span{From: at(2 * beat), To: at(6 * beat)}, 0)
	all := p.all()
	require.Len(t, all, 2)
	assert.Equal(t, beat, all[0].Lost.Std(), "never more than there was")
	assert.Equal(t, 3*beat, all[1].Lost.Std(), "a beat that came late, on a host that stood still")
}
