// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build unix

package auto_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringproof/ringproof/internal/needs"
	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/cli"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// foreign is a ring that somebody runs without agents, by flags of his own.
type foreign struct {
	*fleet
	pki     string // directory of one authority for all, and one pair for all; "": plain
	running map[string]*exec.Cmd
}

var abc = []string{"m1", "m2", "m3"}

// begin starts three etcd, which found their ring under a token that nobody else knows.
func begin(t *testing.T, security ring.Security) foreign {
	r := foreign{fleet: unseeded(t, store.Spec{Security: security}), running: map[string]*exec.Cmd{}}
	if security.Secure() {
		r.pki = filepath.Join(r.dir, "pki")
		r.certify()
	}
	for _, name := range abc {
		r.run(name)
	}
	return r
}

func (r foreign) url(name string, port int) string {
	return r.spec.Security.URL(r.network+strings.TrimPrefix(name, "m"), port)
}

func (r foreign) data(name string) string { return filepath.Join(r.dir, name+".etcd") }

func (r foreign) run(name string) {
	args := []string{"--name=" + name, "--data-dir=" + r.data(name), "--initial-cluster-token=theirs",
		"--initial-cluster=m1=" + r.url("m1", 2380) + ",m2=" + r.url("m2", 2380) + ",m3=" + r.url("m3", 2380),
		"--listen-peer-urls=" + r.url(name, 2380), "--initial-advertise-peer-urls=" + r.url(name, 2380),
		"--listen-client-urls=" + r.url(name, 2379), "--advertise-client-urls=" + r.url(name, 2379)}
	if r.pki != "" {
		for _, whose := range []string{"", "peer-"} {
			args = append(args, "--"+whose+"trusted-ca-file="+r.pki+"/ca.crt", "--"+whose+"cert-file="+r.pki+"/etcd.crt", "--"+whose+"key-file="+r.pki+"/etcd.key", "--"+whose+"client-cert-auth")
		}
	}
	c := exec.Command(r.etcd, args...)
	c.Env = []string{}
	needs.EndsWithTest(c)
	require.NoError(r.t, c.Start())
	r.running[name] = c
	r.t.Cleanup(func() { r.stop(name) })
}

func (r foreign) stop(name string) {
	if c := r.running[name]; c != nil {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
		r.running[name] = nil
	}
}

// certify makes one pair for all that the ring does, as it was the custom.
func (r foreign) certify() {
	authority, err := pki.NewAuthority(time.Now(), "etcd-ca")
	require.NoError(r.t, err)
	key, err := authority.KeyPEM()
	require.NoError(r.t, err)
	pair, err := authority.IssuePeer(time.Now(), pki.Subject{CommonName: "etcd", Hosts: []string{r.network + "1", r.network + "2", r.network + "3", "127.0.0.1"}}, time.Hour)
	require.NoError(r.t, err)
	require.NoError(r.t, os.Mkdir(r.pki, 0o700))
	for name, content := range map[string][]byte{"ca.crt": authority.CertPEM(), "ca.key": key, "etcd.crt": pair.CertPEM, "etcd.key": pair.KeyPEM} {
		require.NoError(r.t, os.WriteFile(filepath.Join(r.pki, name), content, 0o600))
	}
}

func (r foreign) file(name string) []byte {
	text, err := os.ReadFile(filepath.Join(r.pki, name))
	require.NoError(r.t, err)
	return text
}

// client is somebody's who has used the ring for years.
func (r foreign) client() *clientv3.Client {
	config := clientv3.Config{Endpoints: []string{r.url("m1", 2379), r.url("m2", 2379), r.url("m3", 2379)}, DialTimeout: time.Minute}
	if r.pki != "" {
		var err error
		config.TLS, err = pki.ClientTLS(r.file("ca.crt"), pki.Pair{CertPEM: r.file("etcd.crt"), KeyPEM: r.file("etcd.key")})
		require.NoError(r.t, err)
	}
	c, err := clientv3.New(config)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// adopt runs the command, and returns what it says.
func (r foreign) adopt(flags ...string) (string, error) {
	var said strings.Builder
	c := cli.Command(cli.Seams{})
	c.SetOut(&said)
	c.SetErr(&said)
	c.SetArgs(append([]string{"adopt", "file://" + r.store, "--endpoints=" + r.url("m2", 2379)}, flags...))
	err := c.ExecuteContext(r.t.Context())
	return said.String(), err
}

// handOver ends the etcd, and leaves its data to an agent.
func (r foreign) handOver(names ...string) {
	for _, name := range names {
		r.stop(name)
		require.NoError(r.t, os.MkdirAll(filepath.Join(r.dir, name, "disk"), 0o700))
		require.NoError(r.t, os.Rename(r.data(name), filepath.Join(r.dir, name, "disk", "etcd")))
	}
	r.start(false, names...)
}

// TestAdopt takes over a ring that was made by hand. m1 gets its agent while the others
// serve; then both others end at once, as machines do that lose their power, and no list can
// be read that would tell whose logs those are.
func TestAdopt(t *testing.T) {
	for _, security := range []ring.Security{ring.Plain, ring.TLS} {
		t.Run(string(security), func(t *testing.T) {
			r := begin(t, security)
			var flags []string
			if security == ring.TLS {
				_, err := r.adopt()
				require.Error(t, err, "it can't be asked in plain text")
				flags = []string{"--ca-cert=" + r.pki + "/ca.crt", "--ca-key=" + r.pki + "/ca.key"}
			}
			c := r.client()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			var before *clientv3.MemberListResponse
			require.Eventually(t, func() bool {
				_, put := c.Put(ctx, "kept", "since years")
				list, err := c.MemberList(ctx)
				before = list
				unheard := func(m *etcdserverpb.Member) bool { return len(m.ClientURLs) == 0 } // it has not said yet where it serves
				return put == nil && err == nil && !slices.ContainsFunc(list.Members, unheard)
			}, 2*time.Minute, 100*time.Millisecond)

			said, err := r.adopt(flags...)
			require.NoError(t, err)
			assert.Contains(t, said, "ringadm auto file://"+r.store+" --machine m3 --address "+r.network+"3\n")
			_, err = r.adopt(flags...)
			require.ErrorContains(t, err, "holds a ring's spec already")

			r.handOver("m1")
			r.until(2*time.Minute, func(v admin.View) string {
				if m1 := v.RingMembers(); len(v.Presences) != 1 || v.Recorded() != 1 {
					return members(v) + ", of which " + m1[0].String() + " alone is to be on record"
				}
				return ""
			})
			r.handOver("m2", "m3")
			r.until(2*time.Minute, r.voters(abc...))

			after, err := c.MemberList(ctx)
			require.NoError(t, err)
			assert.Equal(t, before.Header.ClusterId, after.Header.ClusterId)
			assert.Equal(t, before.Members, after.Members, "their IDs, names and addresses are what they were")
			kept, err := c.Get(ctx, "kept")
			require.NoError(t, err)
			require.Len(t, kept.Kvs, 1)
		})
	}
}
