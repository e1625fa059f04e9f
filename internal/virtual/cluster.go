// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package virtual

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/image"
	"github.com/ringproof/ringproof/internal/local"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/lockstep"
	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/internal/virtual/addons"
)

// The numbers of a cluster's machines: the parts of its control plane, and its nodes, each
// of which has fifteen numbers after its own for its pods.
const (
	atEtcd      = 2
	atServer    = 3
	atManager   = 4
	atScheduler = 5
	atNames     = 6
	atAddons    = 7
	perNode     = 16
	mostNodes   = lockstep.Machines/perNode - 1
)

const (
	serverPort = 6443
	server     = "kube-apiserver"
)

// cluster is a lab whose machines are the nodes of a Kubernetes cluster: its control
// plane is the true one, its kubelets are a model.
type cluster struct {
	*lab
	Trial
	self string // this program
	keys keyring
	of   labels.Selector // which pods run a member, of those with a claim
	tell func(machine, line string)

	mu      sync.Mutex
	parts   map[string]*exec.Cmd // of the control plane, that run
	away    map[string]bool      // parts that are not to run
	closing bool
	alive   sync.WaitGroup
}

var _ local.Nodes = (*cluster)(nil)

// newCluster brings a control plane up.
func newCluster(t Trial) func(context.Context, machines.Options) (local.Lab, error) {
	return func(ctx context.Context, o machines.Options) (local.Lab, error) {
		made, err := newLab(t.Dir)(ctx, o)
		if err != nil {
			return nil, err
		}
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		c := &cluster{lab: made.(*lab), Trial: t, self: self, parts: map[string]*exec.Cmd{}, away: map[string]bool{}}
		if c.of, err = trial.Members(t.subject); err != nil {
			return nil, err
		}
		if c.keys, err = makeKeys(filepath.Join(t.Dir, "pki"), netip.AddrPortFrom(lockstep.Address(atServer), serverPort)); err != nil {
			return nil, fmt.Errorf("making the cluster's certificates: %w", err)
		}
		for _, p := range c.controlPlane() {
			c.keep(p)
		}
		if err := c.ready(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, errors.Join(c.startAddons(), c.startProxy())
	}
}

// part is a program of the control plane.
type part struct {
	name    string
	machine byte
	program string
	args    []string
}

// controlPlane are its programs, with the flags that kubeadm gives them where they have a
// meaning here.
func (c *cluster) controlPlane() []part {
	etcd := fmt.Sprintf("http://%v:2379", lockstep.Address(atEtcd))
	peer := fmt.Sprintf("http://%v:2380", lockstep.Address(atEtcd))
	key := c.keys.file
	client := func(name string) []string {
		return []string{"--kubeconfig=" + c.keys.config(name), "--authentication-kubeconfig=" + c.keys.config(name), "--authorization-kubeconfig=" + c.keys.config(name),
			"--tls-cert-file=" + key("server.crt"), "--tls-private-key-file=" + key("server.key"), "--client-ca-file=" + key("ca.crt"), "--leader-elect=true"}
	}
	return []part{
		{"etcd", atEtcd, c.releaseOfControlPlane(), []string{"--name=control", "--data-dir=" + filepath.Join(c.Dir, "control"), "--listen-client-urls=" + etcd, "--advertise-client-urls=" + etcd,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=control=" + peer}},
		{server, atServer, c.Kubernetes, []string{server, "--etcd-servers=" + etcd, "--bind-address=" + lockstep.Address(atServer).String(), "--advertise-address=" + lockstep.Address(atServer).String(),
			fmt.Sprintf("--secure-port=%d", serverPort), "--service-cluster-ip-range=10.96.0.0/16", "--tls-cert-file=" + key("server.crt"), "--tls-private-key-file=" + key("server.key"), "--client-ca-file=" + key("ca.crt"),
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local", "--service-account-key-file=" + key("accounts.pub"), "--service-account-signing-key-file=" + key("accounts.key"),
			"--requestheader-client-ca-file=" + key("ca.crt"), "--requestheader-allowed-names=proxy-proxy-client", "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true", "--cert-dir=" + filepath.Join(c.Dir, "apiserver")}},
		{"kube-controller-manager", atManager, c.Kubernetes, append([]string{"kube-controller-manager", "--bind-address=" + lockstep.Address(atManager).String(), "--service-account-private-key-file=" + key("accounts.key"),
			"--root-ca-file=" + key("ca.crt"), "--use-service-account-credentials=true"}, client("manager")...)},
		{"kube-scheduler", atScheduler, c.Kubernetes, append([]string{"kube-scheduler", "--bind-address=" + lockstep.Address(atScheduler).String()}, client("scheduler")...)},
	}
}

// releaseOfControlPlane is the newest etcd that was built for the plan.
func (c *cluster) releaseOfControlPlane() string {
	return c.Releases[slices.Max(slices.Collect(maps.Keys(c.Releases)))].Etcd
}

// restartPart is how long a part of the control plane is away that has ended.
const restartPart = time.Second

// keep has a part of the control plane run, and starts it again when it ends.
func (c *cluster) keep(p part) {
	c.alive.Go(func() {
		for c.run(p) {
			time.Sleep(restartPart)
		}
	})
}

// run is one life of it, and reports whether there is to be another.
func (c *cluster) run(p part) bool {
	c.mu.Lock()
	if c.closing || c.away[p.name] {
		defer c.mu.Unlock()
		return !c.closing
	}
	cmd, err := c.begin(p)
	if err == nil {
		c.parts[p.name] = cmd
	}
	c.mu.Unlock()
	if err != nil {
		return false
	}
	_ = cmd.Wait() // it was killed, or its log says why
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.parts, p.name)
	return !c.closing
}

// Outage kills the API server and keeps it from being started, or lets it be started.
func (c *cluster) Outage(away bool) (machines.Evidence, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away[server] = away
	if !away {
		return machines.Evidence{What: server, Detail: "it is started again"}, nil
	}
	running := c.parts[server]
	if running == nil {
		return machines.Evidence{}, errors.New("the API server doesn't run")
	}
	return machines.Evidence{What: server, Detail: fmt.Sprintf("dead: pid %d", running.Process.Pid)}, running.Process.Kill()
}

func (c *cluster) begin(p part) (*exec.Cmd, error) {
	log, err := os.OpenFile(c.log(p.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(p.program, p.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.Env = append(os.Environ(), lockstep.MachineEnv+"="+strconv.Itoa(int(p.machine)))
	return cmd, cmd.Start()
}

func (c *cluster) log(name string) string { return filepath.Join(c.lab.dir, name+".log") }

// patience is how long the control plane may take to be ready, in virtual time.
const patience = 2 * time.Minute

// ready waits until the API server answers.
func (c *cluster) ready(ctx context.Context) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.keys.ca.pem)
	pair, err := tls.LoadX509KeyPair(c.keys.file("admin.crt"), c.keys.file("admin.key"))
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}}}
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		err := asked(ctx, client, fmt.Sprintf("https://%v:%d/readyz", lockstep.Address(atServer), serverPort))
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Since(began) > patience {
			return fmt.Errorf("the cluster's API server isn't ready after %v: %w; its log ends with: %s", patience, err, c.lastWords(server))
		}
	}
}

func asked(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

// lastWords are the last lines of a part's log.
func (c *cluster) lastWords(name string) string {
	text, _ := os.ReadFile(c.log(name))
	return strings.TrimSpace(string(text[max(0, len(text)-2000):]))
}

// startAddons starts what answers for names, routes to Services and makes disks.
func (c *cluster) startAddons() error {
	o := addons.Options{Kubeconfig: c.keys.config("admin"), Volumes: filepath.Join(c.Dir, "volumes")}
	if machines.Inside() {
		o.VolumeBytes = c.VolumeBytes
	}
	file, err := c.describe(Addons, o)
	if err != nil {
		return err
	}
	c.keep(part{Names, atNames, c.self, []string{Names, file}})
	c.keep(part{Addons, atAddons, c.self, []string{Addons, file}})
	return os.MkdirAll(o.Volumes, 0o755)
}

// describe writes the options of a part as a file.
func (c *cluster) describe(name string, options any) (file string, err error) {
	text, err := json.Marshal(options)
	if err != nil {
		return "", err
	}
	file = filepath.Join(c.Dir, name+".json")
	return file, os.WriteFile(file, text, 0o600)
}

// Images are ringadm's, and those of releases of etcd by the names that an EtcdRing asks for.
func Images(ringadm string, releases map[string]etcdbin.Release) []image.Image {
	all := []image.Image{image.Ringadm(image.RingadmName, ringadm), image.Ringadm(image.Later(image.RingadmName), ringadm)}
	for _, version := range slices.Sorted(maps.Keys(releases)) {
		r := releases[version]
		all = append(all, image.Etcd(image.EtcdRepository+":"+version, r.Etcd, r.Etcdctl, ""))
	}
	return all
}

// images are those that nodes can run.
func (c *cluster) images() []image.Image {
	all := Images(c.Ringadm, c.Releases)
	if c.shipped == nil {
		return all
	}
	name, program := c.shipped.Image()
	for _, name := range []string{name, image.Later(name)} {
		all = append(all, image.Image{Name: name, Programs: map[string]string{program: c.Program}, Entrypoint: []string{program}})
	}
	for _, version := range slices.Sorted(maps.Keys(c.Releases)) {
		r := c.Releases[version]
		all = append(all, image.Etcd(c.shipped.EtcdImage(version), r.Etcd, r.Etcdctl, ""))
	}
	return all
}

// forget deletes a Node.
func (c *cluster) forget(name string) {
	if api, err := c.Admin(); err == nil {
		_ = api.Forget(context.Background(), name) // it says no only when there is none
	}
}

// Kubeconfig is the path of an administrator's.
func (c *cluster) Kubeconfig() string { return c.keys.config("admin") }

// Listen has told what is printed in the pods of nodes, line by line.
func (c *cluster) Listen(tell func(machine, line string)) { c.tell = tell }

// Close ends every process on every node, and the control plane.
func (c *cluster) Close() error {
	c.mu.Lock()
	c.closing = true
	for _, p := range c.parts { // order: all of them die at one instant
		_ = p.Process.Kill()
	}
	c.mu.Unlock()
	c.alive.Wait()
	c.lab.mu.Lock()
	nodes := maps.Clone(c.hosts)
	c.lab.mu.Unlock()
	var errs []error
	for _, number := range slices.Sorted(maps.Keys(nodes)) {
		if nodes[number].On() {
			_, err := nodes[number].PowerOff()
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, c.orders.Close())...)
}
