// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package reports

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/internal/needs"
)

// browser opens a chromium that asks the network for nothing of its own.
func browser(t *testing.T, seen *witness) context.Context {
	t.Helper()
	path := chromium(t)
	flags := append([]chromedp.ExecAllocatorOption{}, chromedp.NoSandbox, chromedp.Headless, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), flags...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	require.NoError(t, chromedp.Listen(ctx, seen.take))
	_, err := chromedp.Call(ctx, log.Enable, cdp.Empty{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// witness keeps what a page says on its console and what it requests.
type witness struct {
	mu   sync.Mutex
	seen []string
}

func (w *witness) take(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		w.seen = append(w.seen, fmt.Sprintf("console: %s %d arguments", e.Type, len(e.Args)))
	case *runtime.EventExceptionThrown:
		w.seen = append(w.seen, "exception: "+e.ExceptionDetails.Text+" "+e.ExceptionDetails.Exception.Description)
	case *log.EventEntryAdded:
		w.seen = append(w.seen, "log: "+e.Entry.Text)
	case *network.EventRequestWillBeSent:
		w.seen = append(w.seen, "request: "+e.Request.URL)
	}
}

func (w *witness) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// do runs actions, ask evaluates an expression in the page.
func do(t *testing.T, ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	require.NoError(t, chromedp.Do(ctx, actions...))
}

func ask[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(t, err)
	return value
}

func chromium(t *testing.T) string {
	t.Helper()
	needs.RealTime(t)
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	needs.Lacking(t, "no chromium here, so nobody looks at the page: apt-get install chromium")
	return ""
}

func written(t *testing.T, r Report) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, Write(dir, r))
	return "file://" + filepath.Join(dir, PageFile)
}

func TestPageInABrowser(t *testing.T) {
	var seen witness
	ctx, address := browser(t, &seen), written(t, growReport())
	number := func(expression string) int { t.Helper(); return ask[int](t, ctx, expression) }
	shots := os.Getenv("RINGPROOF_SHOTS")
	if shots == "" {
		shots = t.TempDir()
	}
	do(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(address), chromedp.WaitVisible(chromedp.CSS(".plot svg")))

	t.Run("the timeline is drawn", func(t *testing.T) {
		require.Greater(t, number(`document.querySelectorAll('details[open] svg rect').length`), 20)
		require.Equal(t, 6, number(`document.querySelectorAll('details[open] svg .row-name').length`), "a lane for each machine")
		require.Positive(t, number(`document.querySelectorAll('details[open] svg .shade').length`), "faults shade the lanes they hit")
		require.Positive(t, number(`document.querySelectorAll('details[open] svg .leader').length`))
		require.Positive(t, number(`document.querySelectorAll('details[open] svg .unknown').length`), "failures are marked")
		require.Positive(t, number(`document.querySelectorAll('details[open] svg .margin').length`))
	})
	t.Run("no label meets another", func(t *testing.T) {
		require.Empty(t, ask[[]string](t, ctx, overlaps))
	})
	t.Run("the crosshair tells the values", func(t *testing.T) {
		tip := ask[string](t, ctx, `document.querySelector('details[open] .plot').dispatchEvent(new KeyboardEvent('keydown', {key: 'Home'}));
			for (let i = 0; i < 60; i++) document.querySelector('details[open] .plot').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}));
			document.querySelector('details[open] .tip').innerText`)
		require.Contains(t, tip, "12.00 s")
		require.Contains(t, tip, "not serving")
		require.Contains(t, tip, "margin")
	})
	t.Run("plus zooms and escape shows all", func(t *testing.T) {
		press := func(key string) bool {
			return ask[bool](t, ctx, `document.querySelector('details[open] .plot').dispatchEvent(new KeyboardEvent('keydown', {key: '`+key+`'})),
				document.querySelector('details[open] .reset').hidden`)
		}
		require.False(t, press("+"))
		require.Empty(t, ask[[]string](t, ctx, overlaps))
		require.True(t, press("Escape"))
	})
	t.Run("the filter works", func(t *testing.T) {
		do(t, ctx, chromedp.SendKeys(chromedp.CSS("#filter"), "partition"))
		require.Equal(t, 1, number(`[...document.querySelectorAll('tr.cell')].filter(r => !r.hidden).length`))
		require.Equal(t, "1 of 4 cells", ask[string](t, ctx, `document.getElementById('shown').textContent`))
		do(t, ctx, chromedp.SendKeys(chromedp.CSS("#filter"), "\b\b\b\b\b\b\b\b\b"))
	})
	t.Run("a link opens its cell", func(t *testing.T) {
		do(t, ctx, chromedp.Click(chromedp.CSS(`tr.cell a[href="#cell-1"]`)), chromedp.WaitVisible(chromedp.CSS("#cell-1 .plot svg")))
	})
	t.Run("the events are listed and filtered", func(t *testing.T) {
		// The rows, and what filters them, are made once the list has opened.
		// A click by coordinates misses while the page still scrolls, so the list is
		// opened as a keyboard would.
		ask[int](t, ctx, `document.querySelector('#cell-1 .events summary').click(), 0`)
		do(t, ctx, chromedp.WaitVisible(chromedp.CSS("#cell-1 .events tbody tr")), chromedp.SendKeys(chromedp.CSS("#cell-1 .events input"), "fault-landed"))
		require.Equal(t, 1, number(`[...document.querySelectorAll('#cell-1 .events tbody tr')].filter(r => !r.hidden).length`))
	})
	t.Run("it has been looked at", func(t *testing.T) {
		for _, width := range []int64{1280, 800} {
			for _, scheme := range []string{"light", "dark"} {
				shoot(t, ctx, filepath.Join(shots, fmt.Sprintf("%s-%d.png", scheme, width)), width, scheme)
				require.LessOrEqual(t, number(`document.documentElement.scrollWidth`), int(width), "no sideways scrolling")
			}
		}
	})
	require.Equal(t, []string{"request: " + address}, seen.all(), "the page is silent and asks for nothing but itself")
}

func TestHostilePageInABrowser(t *testing.T) {
	var seen witness
	ctx, address := browser(t, &seen), written(t, hostileReport())
	do(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(address), chromedp.WaitVisible(chromedp.CSS(".plot svg")),
		chromedp.Click(chromedp.CSS(".events summary")), chromedp.WaitVisible(chromedp.CSS(".events tbody tr")))
	require.Equal(t, []string{"request: " + address}, seen.all())
}

func shoot(t *testing.T, ctx context.Context, path string, width int64, scheme string) {
	t.Helper()
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	require.NoError(t, err)
	do(t, ctx, chromedp.EmulateViewport(width, 900))
	ask[int](t, ctx, `document.activeElement.blur(), scrollTo(0, 0), 0`)
	do(t, ctx, chromedp.Sleep(300*time.Millisecond))
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, picture, 0o644))
}

// overlaps names the pairs of texts of the timeline that lie on each other.
const overlaps = `(() => {
	const texts = [...document.querySelectorAll('details[open] svg text')].map(e => [e.textContent, e.getBoundingClientRect()]).filter(([t]) => t);
	const meeting = [];
	texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
		const x = Math.min(p.right, q.right) - Math.max(p.left, q.left), y = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
		if (x > 1 && y > 3) meeting.push(a + ' / ' + b);
	}));
	return meeting;
})()`
