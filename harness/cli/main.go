// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package cli is the command line of ringproof, for whatever is put on trial and
// wherever it is: a program is a main that calls [Main] with a [Registry].
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/local/machines"
)

// Exit codes, the same for every command.
const (
	exitPass         = 0
	exitFail         = 1
	exitUsage        = 2
	exitInconclusive = 3
	exitEnvironment  = 4
	exitBug          = 5
)

// failure is an error with its exit code.
type failure struct {
	code int
	error
}

func (f failure) Unwrap() error { return f.error }

func usage(format string, args ...any) error {
	return failure{exitUsage, fmt.Errorf(format, args...)}
}

func environment(err error) error {
	if err == nil {
		return nil
	}
	return failure{exitEnvironment, err}
}

// errVerdict carries a verdict that is no pass: it has been printed.
type errVerdict struct{ ringproof.Verdict }

func (e errVerdict) Error() string { return e.String() }

// ballast is never looked at, so that it takes no memory. The collector counts it
// as something to keep, and waits until it is worth its while: of the half a
// megabyte that a simulated second leaves behind nearly nothing stays, and it
// would come after every few seconds of each plan.
//
//lint:ignore U1000 it is kept, and never looked at
var ballast []byte

// Main runs a command line, without the program's name, and returns its exit code. It
// is the last thing that a main calls, and the first, too: some processes that it
// starts are the same program again.
func Main(args []string, r Registry) int {
	if entered, code := machines.Enter(); entered {
		return code
	}
	if len(r.Subjects) == 0 || len(r.Worlds) == 0 {
		fmt.Fprintln(os.Stderr, "ringproof: the registry has nobody to put on trial, or no world: a main gives cli.Main one of each")
		return exitBug
	}
	if err := r.register(); err != nil {
		fmt.Fprintln(os.Stderr, "ringproof: "+err.Error())
		return exitBug
	}
	if os.Getenv("GOGC") == "" {
		ballast = make([]byte, 32<<20)
		debug.SetGCPercent(400)
	}
	return (&program{Registry: r}).run(args)
}

// program is a command line in the making.
type program struct{ Registry }

func (p *program) run(args []string) (code int) {
	ctx, told := untilSignal()
	defer func() {
		if broken := recover(); broken != nil {
			fmt.Fprintf(os.Stderr, "ringproof: a bug of ringproof itself: %v\n%s", broken, debug.Stack())
			code = exitBug
		}
	}()
	if names := forget(); len(names) > 0 {
		fmt.Fprintf(os.Stderr, "ringproof: in the environment here, and kept from every etcd and etcdctl: %s\n", strings.Join(names, ", "))
	}
	root := p.command()
	root.SetArgs(args)
	return interrupted(exitCode(root, root.ExecuteContext(ctx)), told())
}

// untilSignal is a context that ends with the first signal, and says which that was; 0:
// none came. A second signal ends at once what doesn't heed the first.
func untilSignal() (ctx context.Context, told func() syscall.Signal) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var first atomic.Int32
	go func() {
		if by, known := (<-signals).(syscall.Signal); known {
			first.Store(int32(by))
		}
		signal.Stop(signals)
		cancel()
	}()
	return ctx, func() syscall.Signal { return syscall.Signal(first.Load()) }
}

// interrupted is the exit code of what a signal ended before it was done: the shell's, by
// which whoever started it tells that from a run that could not be judged.
func interrupted(code int, by syscall.Signal) int {
	if by != 0 && code == exitInconclusive {
		return 128 + int(by)
	}
	return code
}

// forget takes out of this program's environment what an etcd or an etcdctl would read there,
// and names it: ETCD_FORCE_NEW_CLUSTER in a shell that was used for a rescue would make each
// member of a stranger's ring a ring of its own.
func forget() (names []string) {
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if slices.ContainsFunc([]string{"ETCD_", "ETCDCTL_", "ETCDUTL_"}, func(of string) bool { return strings.HasPrefix(name, of) }) {
			os.Unsetenv(name)
			names = append(names, name)
		}
	}
	return names
}

func exitCode(root *cobra.Command, err error) int {
	var verdict errVerdict
	var failed failure
	switch {
	case err == nil:
		return exitPass
	case errors.As(err, &verdict):
		return verdictCodes[verdict.Verdict]
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(root.ErrOrStderr(), "ringproof: interrupted")
		return exitInconclusive
	case errors.As(err, &failed):
		fmt.Fprintln(root.ErrOrStderr(), "ringproof: "+err.Error())
		return failed.code
	case strings.HasPrefix(err.Error(), "unknown command"):
		fmt.Fprintln(root.ErrOrStderr(), "ringproof: "+err.Error())
		return exitUsage
	}
	fmt.Fprintln(root.ErrOrStderr(), "ringproof: "+err.Error())
	return exitEnvironment
}

var verdictCodes = map[ringproof.Verdict]int{
	ringproof.Pass: exitPass, ringproof.Fail: exitFail, ringproof.Inconclusive: exitInconclusive,
}

func (p *program) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "ringproof",
		Short:         "ringproof injects faults into etcd rings while their automation works, and judges what became of them",
		SilenceUsage:  true,
		SilenceErrors: true,
		Long: `ringproof runs automation that operates etcd against scenarios of faults, in a
simulated world or on real etcd, and judges what clients saw and what the ring
became.

  ringproof run                        every shipped scenario against the reference
  ringproof run --run leader-killed    one of them
  ringproof run --world local          the same on real etcd
  ringproof run my-scenario.yaml       your own
  ringproof explore --for 10m          plans that nobody wrote
  ringproof replay PLAN                one plan again

Exit codes: 0 pass, 1 fail, 2 usage or scenario error, 3 inconclusive (cells that
this host can't run among them), 4 environment, 5 a bug of ringproof itself, 130 or
143 interrupted by a signal.`,
	}
	root.SetFlagErrorFunc(mistyped)
	root.AddCommand(p.partCommands()...)
	root.AddCommand(p.runCommand(), p.replayCommand(), p.exploreCommand(), p.sweepCommand(), p.shrinkCommand(), p.confirmCommand(), p.workerCommand(), p.seatCommand(), p.keeperCommand(), p.mutateCommand(), renamed("gauge", p.mutateCommand()), p.lintCommand(), p.planCommand(), p.listCommand(), newCommand(), p.explainCommand(),
		schemaCommand(), etcdCommand(), imagesCommand(), reportCommand(), diffCommand(), p.doctorCommand(), cleanCommand(), versionCommand(), p.benchCommand())
	root.SetHelpCommand(helpCommand(root))
	return root
}
