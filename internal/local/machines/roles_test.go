// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// role is the environment variable that makes the test binary one of the programs below: they are what
// runs on the machines of the tests.
const role = "RINGPROOF_TEST_ROLE"

func TestMain(m *testing.M) {
	if entered, code := Enter(); entered {
		os.Exit(code)
	}
	if play, ok := roles[os.Getenv(role)]; ok {
		os.Exit(play(os.Args[1:]))
	}
	os.Exit(m.Run())
}

var roles = map[string]func(args []string) int{
	"serve":  serve,
	"agent":  agent,
	"write":  write,
	"hold":   hold,
	"hello":  hello,
	"lookup": lookup,
	"outer":  outer,
	"lab":    labUntilTold,
	"direct": labUntilTold,
}

// serve accepts connections at an address, and says when it does.
func serve(args []string) int {
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("serving")
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		_, _ = c.Write([]byte("here\n"))
		c.Close()
	}
}

// lookup prints where a name leads.
func lookup(args []string) int {
	found, err := net.LookupHost(args[0])
	fmt.Println(found, err)
	return 0
}

// agent starts a program called etcd, as a launcher does, and waits for it.
func agent(args []string) int {
	exe, _ := os.Executable()
	child := exec.Command(exe)
	child.Args = append([]string{"etcd"}, args...)
	// A cleared environment: the tag must be found by the parent.
	child.Env = []string{role + "=serve"}
	child.Stdout = os.Stdout
	if err := child.Run(); err != nil {
		fmt.Println("etcd:", err)
		time.Sleep(time.Hour)
	}
	return 0
}

// write appends to a file until that fails, and says why.
func write(args []string) int {
	f, err := os.OpenFile(args[0], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
		time.Sleep(time.Millisecond)
	}
	fmt.Println(err)
	if errors.Is(err, syscall.ENOSPC) {
		return 28
	}
	return 1
}

// hold maps a file and closes it.
func hold(args []string) int {
	f, err := os.OpenFile(args[0], os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = f.Truncate(4096)
	}
	if err == nil {
		_, err = syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_SHARED)
	}
	f.Close()
	fmt.Println("holding", err)
	time.Sleep(time.Hour)
	return 0
}

func hello(args []string) int {
	name, _ := os.Hostname()
	fmt.Println(name, os.Getppid(), os.Getenv("GREETING"))
	fmt.Fprintln(os.Stderr, "to stderr")
	return 7
}

// outer is ringproof as the user starts it.
func outer(args []string) int {
	env := append(os.Environ(), role+"=lab")
	code, err := Sandbox(context.Background(), args, env)
	if err != nil {
		fmt.Println(err)
		return 4
	}
	return code
}

// labUntilTold is a run: it has two machines with a program each, and ends with code 9 on a signal.
func labUntilTold(args []string) int {
	told := notify()
	ctx := context.Background()
	l, err := NewLab(ctx, Options{VolumeBytes: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	serving := make(chan string, 8)
	for _, name := range []string{"a", "b"} {
		m, err := l.Add(ctx, name)
		if err == nil {
			err = m.Start(ctx, program("agent", "agent", m.Addr().String()+":7000", func(s string) { serving <- s }))
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
		_ = os.WriteFile(filepath.Join(m.DataRoot(), "file"), nil, 0o600)
		<-serving
	}
	fmt.Println("ready")
	<-told
	if err := l.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 9
}

// program is a command that plays a role.
func program(tag, play, arg string, each func(string)) Command {
	exe, _ := os.Executable()
	return Command{Tag: tag, Args: []string{exe, arg}, Env: append(os.Environ(), role+"="+play), Stdout: each}
}
