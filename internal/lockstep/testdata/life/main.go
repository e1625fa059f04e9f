// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Command life is what the tests of lockstep run in a world: its first argument says
// what it does there.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ringproof/ringproof/internal/lockstep"
)

func main() {
	begun = time.Now()
	do := map[string]func(){"pipes": pipes, "count": count, "foreign": foreign, "talk": talk, "serve": serve, "signals": signals, "heed": heed, "sleep": sleep,
		"fault": fault, "clock": clock, "suspend": suspend, "doze": doze, "disk": disk, "write": write, "spin": spin, "hoard": hoard, "slow": slow, "lossy": lossy, "echo": echo, "fed": fed, "wait": wait, "meet": meet, "sync": synced, "unheard": unheard, "greet": greet, "many": many, "brief": brief, "nag": nag, "press": press, "hearkens": hearkens, "floods": floods}[os.Args[1]]
	do()
}

var begun time.Time

// say prints a line with the time.
func say(format string, args ...any) {
	fmt.Printf("%v %s\n", time.Since(begun).Round(time.Millisecond), fmt.Sprintf(format, args...))
}

// again is this program as something else, on a machine.
func again(machine int, as ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], as...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", lockstep.MachineEnv, machine))
	return cmd
}

// pipes reads what a child prints, when it does.
func pipes() {
	cmd := again(1, "count")
	out, err := cmd.StdoutPipe()
	say("%v", errors.Join(err, cmd.Start()))
	for in := bufio.NewScanner(out); in.Scan(); {
		say("%s", in.Text())
	}
	say("%v", cmd.Wait())
	both, err := again(1, "count").CombinedOutput()
	say("%q %v", both, err)
}

// many hears many children out, one after the other.
func many() {
	for range 100 {
		said, err := again(1, "brief").CombinedOutput()
		say("%q %v", said, err)
	}
}

func brief() { fmt.Println("done") }

// hearkens hears a child that says much at once, and one that panics beside many goroutines.
func hearkens() {
	for _, of := range []string{"much", "panic"} {
		said, err := again(1, "floods", of).CombinedOutput()
		say("%t %d %v", len(said) > 100<<10, strings.Count(string(said), "\ngoroutine "), err)
	}
}

func floods() {
	if os.Args[2] == "much" {
		_, _ = os.Stdout.Write(make([]byte, 200<<10))
		return
	}
	for range 1000 {
		go sleep()
	}
	time.Sleep(time.Second)
	panic("at once")
}

// fed feeds a child, which says what it was fed.
func fed() {
	cmd := again(1, "echo")
	in, err := cmd.StdinPipe()
	cmd.Stdout = os.Stdout
	say("%v", errors.Join(err, cmd.Start()))
	for n := range 3 {
		time.Sleep(time.Second)
		fmt.Fprintln(in, "bit", n)
	}
	say("%v", errors.Join(in.Close(), cmd.Wait()))
}

func echo() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		say("fed %s", in.Text())
	}
}

func count() {
	for n := range 3 {
		fmt.Println("line", n)
		time.Sleep(time.Second)
	}
	os.Exit(3)
}

// foreign runs a program that has no inside.
func foreign() {
	said, err := exec.Command("/bin/echo", "in no time").Output()
	say("%q %v", said, err)
}

// talk asks another machine, before anybody listens there, and while.
func talk() {
	say("%v", ask(7))
	server := again(7, "serve")
	say("%v", server.Start())
	time.Sleep(100 * time.Millisecond)
	say("%v", ask(7))
	say("%v", server.Process.Kill())
	say("%v", server.Wait())
	say("%v", ask(7))
}

func ask(machine byte) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%v", lockstep.Address(machine)), nil)
	if err != nil {
		return err.Error()
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return fmt.Sprintf("%s%v", text, err)
}

func serve() {
	fmt.Println(http.ListenAndServe("0.0.0.0:80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "you are %s, ", r.RemoteAddr) })))
}

// signals sends signals to who heeds them and who doesn't.
func signals() {
	heeds, sleeps := again(1, "heed"), again(1, "sleep")
	heeds.Stdout = os.Stdout
	say("%v", errors.Join(heeds.Start(), sleeps.Start()))
	time.Sleep(time.Second)
	say("%v", errors.Join(heeds.Process.Signal(syscall.SIGTERM), sleeps.Process.Signal(syscall.SIGTERM)))
	say("%v, %v", heeds.Wait(), sleeps.Wait())
}

// heed ends in its own way when it is told to, and then as etcd does: by the signal.
func heed() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	say("heard %v", <-told)
	signal.Stop(told)
	say("%v", syscall.Kill(os.Getpid(), syscall.SIGTERM))
}

func sleep() { time.Sleep(time.Hour) }

// fault does to a machine what a coordinator can.
func fault() {
	orders, err := lockstep.Order(context.Background())
	server := again(7, "serve")
	say("%v", errors.Join(err, server.Start()))
	time.Sleep(100 * time.Millisecond)
	do := func(d lockstep.Deed) {
		say("%s: %v", d.Do, orders.Do(d))
		say("%v", ask(7))
	}
	do(lockstep.Deed{Do: lockstep.DoCut, Machines: []byte{1}, To: []byte{7}})
	do(lockstep.Deed{Do: lockstep.DoMend, Machines: []byte{1}, To: []byte{7}})
	do(lockstep.Deed{Do: lockstep.DoSignal, Machines: []byte{7}, Pids: []int{server.Process.Pid}, Signal: syscall.SIGSTOP})
	do(lockstep.Deed{Do: lockstep.DoSignal, Machines: []byte{7}, Pids: []int{server.Process.Pid}, Signal: syscall.SIGCONT})
	pids, _ := lockstep.Running(7)
	say("%d run", len(pids))
	do(lockstep.Deed{Do: lockstep.DoOff, Machines: []byte{7}})
	pids, _ = lockstep.Running(7)
	say("%d run, %v, %v", len(pids), server.Wait(), errors.Unwrap(again(7, "serve").Start()))
	say("%v", orders.Do(lockstep.Deed{Do: lockstep.DoOn, Machines: []byte{7}}))
	server = again(7, "serve")
	say("%v", server.Start())
	time.Sleep(100 * time.Millisecond)
	say("%v", ask(7))
	say("%v", orders.Do(lockstep.Deed{Do: "shout"}))
}

// unheard dials somebody whose answers are lost: nobody is met there, neither meanwhile
// nor when it was given up, and the next is. A dial that waits for the end of that is met.
func unheard() {
	orders, err := lockstep.Order(context.Background())
	server := again(7, "greet")
	server.Stdout = os.Stdout
	say("%v", errors.Join(err, server.Start()))
	time.Sleep(100 * time.Millisecond)
	cut := lockstep.Deed{Do: lockstep.DoCut, Machines: []byte{7}, To: []byte{1}}
	mend := cut
	mend.Do = lockstep.DoMend
	say("cut: %v", orders.Do(cut))
	say("%v", dial(2*time.Second))
	say("mend: %v", orders.Do(mend))
	time.Sleep(time.Second)
	say("cut: %v", orders.Do(cut))
	time.AfterFunc(time.Second, func() { say("mend: %v", orders.Do(mend)) })
	say("%v", dial(2*time.Second))
	time.Sleep(time.Second)
}

func dial(within time.Duration) error {
	c, err := net.DialTimeout("tcp", fmt.Sprintf("%v:80", lockstep.Address(7)), within)
	if err != nil {
		return err
	}
	return c.Close()
}

// greet says whom it meets, and when they go.
func greet() {
	l, err := net.Listen("tcp", "0.0.0.0:80")
	for err == nil {
		var c net.Conn
		if c, err = l.Accept(); err == nil {
			fmt.Printf("met %v\n", c.RemoteAddr())
			n, err := io.Copy(io.Discard, c)
			fmt.Printf("heard %d bytes, %v\n", n, err)
		}
	}
	fmt.Println(err)
}

// clock has the clock of this machine set.
func clock() {
	orders, err := lockstep.Order(context.Background())
	before := time.Now().Round(0)
	say("%v", errors.Join(err, orders.Do(lockstep.Deed{Do: lockstep.DoWall, Machines: []byte{1}, By: 10 * time.Minute})))
	time.Sleep(time.Second)
	say("it is %v later", time.Now().Round(0).Sub(before).Round(time.Second))
}

// suspend has a machine sleep for a minute, on which somebody is about to sleep for ten seconds.
func suspend() {
	orders, err := lockstep.Order(context.Background())
	sleeper := again(7, "doze")
	sleeper.Stdout = os.Stdout
	say("%v", errors.Join(err, sleeper.Start()))
	time.Sleep(2 * time.Second)
	for _, do := range []string{lockstep.DoSleep, lockstep.DoWake} {
		say("%s: %v", do, orders.Do(lockstep.Deed{Do: do, Machines: []byte{7}}))
		time.Sleep(time.Minute)
	}
	say("%v", sleeper.Wait())
}

// doze says for how long it slept by each of its clocks.
func doze() {
	from := time.Now()
	time.Sleep(10 * time.Second)
	now := time.Now()
	fmt.Printf("slept %v by the one, %v by the other clock\n", now.Sub(from).Round(time.Second), now.Round(0).Sub(from.Round(0)).Round(time.Second))
}

// disk has the disk of this machine take longer to sync, for who runs and for who starts.
func disk() {
	orders, err := lockstep.Order(context.Background())
	say("%v", err)
	for _, by := range []time.Duration{0, 2 * time.Second, 0} {
		err := orders.Do(lockstep.Deed{Do: lockstep.DoDisk, Machines: []byte{1}, By: by})
		write()
		said, failed := again(1, "write").CombinedOutput()
		say("%s, %v", strings.TrimSpace(string(said)), errors.Join(err, failed))
	}
}

// write says how long a sync takes.
func write() {
	file, err := os.CreateTemp("", "")
	defer os.Remove(file.Name())
	before := time.Now()
	err = errors.Join(err, file.Sync())
	fmt.Printf("synced in %v, %v\n", time.Since(before).Round(time.Second), err)
}

// slow has what comes from and to a machine take longer.
func slow() {
	orders, err := lockstep.Order(context.Background())
	say("%v", errors.Join(err, again(7, "serve").Start()))
	time.Sleep(100 * time.Millisecond)
	for _, by := range []time.Duration{200 * time.Millisecond, 0} {
		say("%v", orders.Do(lockstep.Deed{Do: lockstep.DoSlow, Machines: []byte{7}, By: by}))
		say("%v", ask(7))
	}
	say("%v", orders.Do(lockstep.Deed{Do: lockstep.DoSlow, Machines: []byte{7}, To: []byte{1}, By: time.Hour}))
	say("%v", ask(7))
	say("%v", orders.Do(lockstep.Deed{Do: lockstep.DoSlow, Machines: []byte{1, 7}, By: time.Hour}))
	say("%v", ask(7))
}

// lossy has what comes from and to a machine lost now and then, and sent again.
func lossy() {
	orders, err := lockstep.Order(context.Background())
	say("%v", errors.Join(err, again(7, "serve").Start()))
	time.Sleep(100 * time.Millisecond)
	for _, percent := range []int{50, 0} {
		say("%v", orders.Do(lockstep.Deed{Do: lockstep.DoLose, Machines: []byte{7}, Percent: percent}))
		for range 3 {
			say("%v", ask(7))
		}
	}
	say("%v", orders.Do(lockstep.Deed{Do: lockstep.DoLose, Machines: []byte{7}, To: []byte{1}, Percent: 50}))
	say("%v", ask(7))
}

// spin never becomes idle.
func spin() {
	for {
	}
}

// hoard never becomes idle, and keeps all that it makes.
func hoard() {
	var all [][]byte
	for {
		piece := make([]byte, 1<<20)
		for i := range piece {
			piece[i] = byte(len(all))
		}
		all = append(all, piece)
	}
}

// wait waits for nobody.
func wait() {
	var mu sync.Mutex
	mu.Lock()
	mu.Lock()
}

// meet has two processes meet in a directory: who comes first is a matter of the seed.
func meet() {
	dir, err := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "first")
	var all []*exec.Cmd
	for _, machine := range []int{2, 3} {
		cmd := again(machine, "sync", file, fmt.Sprint(machine))
		cmd.Stdout = os.Stdout
		err = errors.Join(err, cmd.Start())
		all = append(all, cmd)
	}
	for _, cmd := range all {
		err = errors.Join(err, cmd.Wait())
	}
	say("%v", err)
}

func synced() {
	own, err := os.Create(os.Args[2] + os.Args[3])
	err = errors.Join(err, own.Sync(), os.Link(own.Name(), os.Args[2]))
	if err == nil {
		fmt.Println("first:", os.Args[3])
	}
}

// press asks again at once until another has answered, which takes that a while.
func press() {
	answered := make(chan bool, 1)
	go func() { time.Sleep(20 * time.Millisecond); answered <- true }()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		select {
		case <-answered:
			say("answered")
			cancel()
			return
		default:
		}
		cancel()
		_ = ctx
	}
}

// nag asks again at once until another has answered, and says so each time.
func nag() {
	answered := make(chan bool, 1)
	go func() { answered <- true }()
	for asked := 1; ; asked++ {
		fmt.Fprintln(os.Stderr, "asked", asked)
		select {
		case <-answered:
			say("answered")
			return
		default:
		}
	}
}
