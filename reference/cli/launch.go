// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/ring"
)

// launchFlags are the flags of ringadm launch and launch init.
type launchFlags struct {
	ring, namespace, pod, address, version, etcd string
	data, run, pki, tool, termination            string
}

func launchCommand(s Seams) *cobra.Command {
	var f launchFlags
	c := &cobra.Command{
		Use:   "launch",
		Short: "run a member of an EtcdRing in its pod",
		Long: `launch runs in each pod of an EtcdRing, as the first process of etcd's container:
it starts etcd when the ring has a member for this pod's disk, and tells the ring that
the disk is here. It changes nothing in the Kubernetes API, and does without it once
it has read of its ring.

The disk got its identity from ringadm launch init. If another is there, launch ends
and says so in its termination message.

The log is JSON, a line for each thing that happened, on standard output. Interrupted,
it hands leadership over and stops etcd.`,
		Args: exactly(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error { return runLaunch(c.Context(), c.OutOrStdout(), f, s) },
	}
	c.PersistentFlags().StringVar(&f.pod, "pod", "", "name of this pod (required)")
	c.PersistentFlags().StringVar(&f.data, "data", kube.DiskPath, "where the pod's volume is mounted")
	c.PersistentFlags().StringVar(&f.run, "run", kube.RunPath, "directory that both containers of the pod mount")
	c.PersistentFlags().StringVar(&f.termination, "termination-message", kube.TerminationMessage, "where the kubelet reads a container's last words")
	c.Flags().StringVar(&f.address, "address", "", "IP address of this pod, which its name must lead to before a new member starts; \"\": any is taken for it")
	c.Flags().StringVar(&f.ring, "ring", "", "name of the EtcdRing (required)")
	c.Flags().StringVar(&f.namespace, "namespace", "", "namespace of the EtcdRing (required)")
	c.Flags().StringVar(&f.version, "version", "", "release of etcd in this image, as v3.6.16 (required)")
	c.Flags().StringVar(&f.etcd, "etcd", kube.Etcd, "etcd in this image")
	c.Flags().StringVar(&f.pki, "pki", kube.CertificatesPath, "directory that holds SLOT/ with the certificates of each slot")
	c.AddCommand(launchInitCommand(&f))
	return c
}

func launchInitCommand(f *launchFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "init",
		Short: "give the pod's disk an identity, and say what is on it",
		Long: `init runs before ringadm launch, in a container of its own: it gives the disk an
identity if it has none, writes what is on the disk into the termination message, where
the controller reads it, and copies this program to where etcd's container runs it.`,
		Args: exactly(0, "no argument"),
		RunE: func(*cobra.Command, []string) error { return runLaunchInit(*f) },
	}
	c.Flags().StringVar(&f.tool, "tool", kube.Tool, "where to copy this program")
	return c
}

const evidenceFile = "disk.json" // in the run directory: what init found

func runLaunchInit(f launchFlags) error {
	if f.pod == "" {
		return usageError{errors.New("--pod is missing: the name of this pod")}
	}
	found, err := kube.Find(host.NewReal(f.pod, f.data, f.run, nil), f.pod)
	if err != nil {
		return err
	}
	text, err := json.Marshal(found)
	if err != nil {
		return err
	}
	if err := copyTool(f.tool); err != nil {
		return fmt.Errorf("copying ringadm: %w", err)
	}
	if err := replaceFile(filepath.Join(f.run, evidenceFile), text, 0o600); err != nil {
		return err
	}
	return os.WriteFile(f.termination, text, 0o600)
}

// copyTool copies this program. A copy that ends midway is not in its place.
func copyTool(to string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer from.Close()
	copied, err := os.OpenFile(to+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(copied, from)
	if err := errors.Join(err, copied.Close()); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

func replaceFile(path string, text []byte, mode os.FileMode) error {
	if err := os.WriteFile(path+".new", text, mode); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (f launchFlags) validate() (ring.Version, error) {
	for _, x := range []struct{ flag, value, what string }{
		{"--ring", f.ring, "the name of the EtcdRing"}, {"--namespace", f.namespace, "the namespace of the EtcdRing"},
		{"--pod", f.pod, "the name of this pod"}, {"--version", f.version, "the release of etcd in this image, as v3.6.16"},
	} {
		if x.value == "" {
			return "", usageError{fmt.Errorf("%s is missing: %s", x.flag, x.what)}
		}
	}
	version, err := ring.ParseVersion(f.version)
	if err != nil {
		return "", usageError{fmt.Errorf("--version: %w", err)}
	}
	if _, ok := (kube.Names{Namespace: f.namespace, Ring: f.ring}).Ordinal(f.pod); !ok {
		return "", usageError{fmt.Errorf("--pod %q is no pod of the ring %s: those are %s-0, %s-1 and so on", f.pod, f.ring, f.ring, f.ring)}
	}
	return version, nil
}

func runLaunch(ctx context.Context, out io.Writer, f launchFlags, s Seams) error {
	version, err := f.validate()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(f.run, evidenceFile))
	if err != nil {
		return fmt.Errorf("what ringadm launch init found: %w; run it first", err)
	}
	found, err := kube.ParseEvidence(string(text))
	if err != nil {
		return err
	}
	api, err := podAPI()
	if err != nil {
		return err
	}
	reap(ctx)
	// A directory of its own: the shared one is open to the pod's group.
	real := host.NewReal(f.pod, f.data, filepath.Join(f.run, "etcd"), out)
	tellInherited(real)
	if err := real.Lock(); err != nil {
		return err
	}
	var h host.Host = real
	if s.Host != nil {
		h = s.Host(h)
	}
	m := member{launchFlags: f, host: h, found: found}
	m.launcher = m.newLauncher(api, version, brain(h, s))
	return m.run(ctx)
}

func brain(h host.Host, s Seams) auto.Brain {
	b := auto.Reference()
	if s.Brain != nil {
		b = s.Brain(h, b)
	}
	return b
}

// podAPI reads from the API server as the pod's account. It knows the two kinds that
// it reads, so that it needs nothing of the server to begin with.
func podAPI() (client.Reader, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("the API server's address and the account of this pod: %w; launch runs in a pod of an EtcdRing", err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(v1alpha1.GroupVersion.WithKind("EtcdRing"), meta.RESTScopeNamespace)
	return client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
}

// member is one life of a member's container.
type member struct {
	launchFlags
	host     host.Host
	launcher *launcher.Launcher
	found    kube.Evidence
	beat     time.Time
}

func (m *member) newLauncher(api client.Reader, version ring.Version, b auto.Brain) *launcher.Launcher {
	names := kube.Names{Namespace: m.namespace, Ring: m.ring}
	certificates := filepath.Join(m.pki, m.pod)
	return launcher.NewLauncher(m.host, &host.Recorder{Host: m.host}, launcher.Config{
		Machine: m.pod, Address: names.Address(m.pod), Binaries: map[ring.Version]string{version: m.etcd}, Named: m.found.Disk,
		Source: &kube.Source{API: api, Names: names, Version: version, Pod: m.pod}, Unnamed: m.unnamed, Decide: b.Boot, Do: b.Do,
		Issued: &launcher.Issued{Dir: certificates, Read: func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(certificates, name)) }},
	})
}

// unnamed says why whoever looks this pod up doesn't find it yet; "": he does.
func (m *member) unnamed(ctx context.Context) string {
	name := kube.Names{Namespace: m.namespace, Ring: m.ring}.Address(m.pod)
	ctx, cancel := m.host.Timeout(ctx, lookUpWithin)
	defer cancel()
	switch found, err := net.DefaultResolver.LookupHost(ctx, name); {
	case err != nil:
		return err.Error()
	case m.address != "" && !slices.Contains(found, m.address):
		return fmt.Sprintf("%s leads to %s, and this pod is %s", name, strings.Join(found, ", "), m.address)
	}
	return ""
}

const lookUpWithin = 2 * time.Second

const launchPace = 150 * time.Millisecond

// run takes turns until ctx ends or the disk is another. Then it hands leadership over
// and stops etcd.
func (m *member) run(ctx context.Context) error {
	said := &host.Recorder{Host: m.host}
	var misplaced *launcher.DiskError
	for ctx.Err() == nil && misplaced == nil {
		err := m.launcher.Alone(ctx)
		if err != nil && !errors.As(err, &misplaced) {
			said.Say(host.EventTrouble, err.Error())
		}
		if err := m.tell(); err != nil {
			said.Say(host.EventTrouble, err.Error())
		}
		_ = m.host.Sleep(ctx, launchPace)
	}
	stopping, cancel := m.host.Timeout(context.WithoutCancel(ctx), launcher.StopWithin)
	defer cancel()
	err := m.launcher.Stop(stopping)
	if misplaced != nil {
		return errors.Join(misplaced, err, os.WriteFile(m.termination, []byte(kube.MisplacedMessage+misplaced.Error()), 0o600))
	}
	return err
}

const beatFile = "turn" // in the run directory: its time is that of the last turn

// stamp says when the last turn was, by the clock of who takes it. That of the filesystem
// may be another: in virtual time it is the host's, and no launcher was ever late.
func (f launchFlags) stamp(now time.Time) error {
	path := filepath.Join(f.run, beatFile)
	return errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, now, now))
}

// tell says for the probes that turns are taken, and for the next life of the container
// which disk is here: a launcher that emptied it gave it another identity.
func (m *member) tell() error {
	if now := m.host.Now(); now.Sub(m.beat) >= time.Second || now.Before(m.beat) {
		m.beat = now
		if err := m.stamp(now); err != nil {
			return err
		}
	}
	if m.launcher.Disk() == m.found.Disk {
		return nil
	}
	renewed := kube.Evidence{Disk: m.launcher.Disk()}
	text, err := json.Marshal(renewed)
	if err == nil {
		err = replaceFile(filepath.Join(m.launchFlags.run, evidenceFile), text, 0o600)
	}
	if err == nil {
		m.found = renewed
	}
	return err
}
