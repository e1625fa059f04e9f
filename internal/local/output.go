// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/observe"
	"github.com/ringproof/ringproof/internal/trial"
)

// mostWords is how much of etcd's output is looked through: a panic prints the
// stacks of all goroutines after its reason.
const mostWords = 4 << 20

// lastWord returns why the machine's etcd ended, if it printed a panic or a fatal
// error since the last one was looked for.
func (w *World) lastWord(n *node) string {
	file, err := os.Open(w.Subject.Etcd().Output(n.run))
	if err != nil {
		return ""
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	from := max(n.heard, size-mostWords)
	if from > size { // it was begun anew
		from = 0
	}
	n.heard = size
	text := make([]byte, size-from)
	if _, err := file.ReadAt(text, from); err != nil && err != io.EOF {
		return ""
	}
	return reason(text)
}

// mute are the machines with an etcd that printed nothing where it was looked for:
// every etcd warns of something when it starts.
func (w *World) mute() (names []string) {
	for _, n := range w.present() {
		if w.etcd(n) == 0 {
			continue
		}
		text, err := os.ReadFile(w.Subject.Etcd().Output(n.run))
		if err != nil || !ofEtcd.Match(text) {
			names = append(names, n.name)
		}
	}
	return names
}

// outputs looks through all that was printed, on a machine without an etcd by agents.
func (w *World) outputs() (all []ringproof.Output) {
	for _, n := range w.present() {
		o := ringproof.Output{Machine: n.name}
		files, own := []string{filepath.Join(n.run, trial.AgentOutput)}, ""
		if w.etcd(n) != 0 {
			own = w.Subject.Etcd().Output(n.run)
			files = slices.Compact(append(files, own))
		}
		for _, file := range files {
			switch text, err := os.ReadFile(file); {
			case err == nil:
				observe.HearAll(&o, text)
			case file == own || !errors.Is(err, fs.ErrNotExist): // an agent may print elsewhere
				o.Err = err.Error()
			}
		}
		if own != "" || o.Lines > 0 || o.Err != "" {
			all = append(all, o)
		}
	}
	return all
}

// ofEtcd matches the places in etcd's sources that its log names, in JSON or not.
var ofEtcd = regexp.MustCompile(`\b(auth|embed|etcdmain|etcdserver|rafthttp)/[a-z0-9_]+\.go:[0-9]+`)

// reason returns Go's line of the first panic in etcd's output, and of a mistake that the runtime
// found where it was, as all read alike; or etcd's own of the first error that it took for fatal.
func reason(output []byte) string {
	for line := range bytes.Lines(output) {
		line = bytes.TrimSpace(line)
		for _, begins := range []string{"panic: ", "fatal error: "} {
			if bytes.HasPrefix(line, []byte(begins)) {
				text := "panic: " + string(bytes.TrimPrefix(line, []byte(begins)))
				if at := running.FindSubmatch(output); at != nil && strings.Contains(text, "runtime error: ") {
					text += ", in " + string(at[1])
				}
				return text
			}
		}
		if why := fatal(line); why != "" {
			return "fatal: " + why
		}
	}
	return ""
}

// running matches the head of the stack of who panicked, and the function in which that was.
var running = regexp.MustCompile(`(?m)^goroutine \d+ \[running\]:\n(?:(?:panic|runtime\.\S+)\(.*\n\t.*\n)*(\S+)\(`)

// fatal is the error of a line that etcd logged before it ended itself (zap's JSON).
func fatal(line []byte) string {
	var said struct{ Level, Msg, Error string }
	if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &said) != nil || said.Level != "fatal" {
		return ""
	}
	return strings.TrimSuffix(said.Msg+": "+said.Error, ": ")
}

// mostLog is how much is kept of the log of one process: its end.
const mostLog = 256 << 10

// Logs are what the agents and their etcds printed, by the names of
// files: "m1.agent", "m1.etcd". They are there once the world is closed.
func (w *World) Logs() map[string][]byte { return w.said }

func (w *World) readLogs() map[string][]byte {
	all := map[string][]byte{}
	for _, n := range w.nodes {
		files := map[string]string{n.name + ".agent": filepath.Join(n.run, trial.AgentOutput)}
		if own := w.Subject.Etcd().Output(n.run); own != files[n.name+".agent"] {
			files[n.name+".etcd"] = own
		}
		for name, file := range files {
			if text, err := os.ReadFile(file); err == nil && len(text) > 0 {
				all[name] = text[max(0, len(text)-mostLog):]
			}
		}
	}
	if _, ok := w.lab.(Nodes); ok {
		maps.Copy(all, LogsBelow(w.dir))
	}
	return all
}

// LogsBelow are the ends of all logs below a directory, by their paths there with dots
// for slashes.
func LogsBelow(dir string) map[string][]byte {
	all := map[string][]byte{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // what can't be read isn't there
		if err != nil {
			return nil
		}
		if d.IsDir() && d.Name() == "containers" { // whose files are found elsewhere too
			return filepath.SkipDir
		}
		if name, err := filepath.Rel(dir, path); err == nil && filepath.Ext(path) == ".log" {
			if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
				all[strings.ReplaceAll(strings.TrimSuffix(name, ".log"), "/", ".")] = text[max(0, len(text)-mostLog):]
			}
		}
		return nil
	})
	return all
}
