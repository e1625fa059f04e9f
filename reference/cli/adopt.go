// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/auto"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// adoptFlags are the flags of ringadm adopt.
type adoptFlags struct {
	endpoints             string
	caCert, caKey         string
	peerCACert, peerCAKey string
}

func adoptCommand() *cobra.Command {
	var f adoptFlags
	c := &cobra.Command{
		Use:   "adopt STORE",
		Short: "make a store for a ring that runs already",
		Long: `adopt writes down in a new store what a ring is that others made, with etcdadm, kubeadm
or by hand, so that agents can take it over. It asks the ring, and changes nothing in it.

Then, on one machine after the other, each time once all members serve: end its etcd for
good, move (not copy: what a copy was made of may have acknowledged more since) its data
directory to DATA/etcd, and start the agent, by the line that adopt prints. The member keeps its
ID and its log. What the old etcd had for flags is asked for by ringadm spec STORE flag.NAME=VALUE.

There are 1, 3, 5, 7 or 9 members, all of one release, and all serve. Each has one peer URL,
at port 2380, and a name as hosts have, which becomes its machine's. Where they speak TLS,
agents issue certificates by the authority of those that the ring has: its key is needed.`,
		Example: `  ringadm adopt file:///mnt/ring --endpoints http://10.0.0.1:2379
  ringadm adopt file:///mnt/ring --endpoints https://10.0.0.1:2379 \
    --ca-cert /etc/kubernetes/pki/etcd/ca.crt --ca-key /etc/kubernetes/pki/etcd/ca.key`,
		Args: exactly(1, "the store's address"),
		RunE: func(c *cobra.Command, args []string) error { return adopt(c.Context(), c.OutOrStdout(), args[0], f) },
	}
	endpointsFlag(c.Flags(), &f.endpoints)
	c.Flags().StringVar(&f.caCert, "ca-cert", "", "certificate of the authority by which the ring's certificates are")
	c.Flags().StringVar(&f.caKey, "ca-key", "", "its private key: it is kept in the store")
	c.Flags().StringVar(&f.peerCACert, "peer-ca-cert", "", "certificate of the authority of peers, if they have another")
	c.Flags().StringVar(&f.peerCAKey, "peer-ca-key", "", "its private key")
	return c
}

func adopt(ctx context.Context, out io.Writer, address string, f adoptFlags) error {
	if f.endpoints == "" {
		return errNoEndpoints
	}
	authority, err := f.authority()
	if err != nil {
		return err
	}
	found, err := f.find(ctx, authority)
	if err != nil {
		return err
	}
	if err := cmp.Or(found.identity.Validate(), found.spec.Validate()); err != nil {
		return fmt.Errorf("agents can't run the ring as it is: %w; an etcd has another name once it is started with another --name, and etcdctl member add and remove change how many there are", err)
	}
	if err := found.write(ctx, address, authority); err != nil {
		return err
	}
	fmt.Fprintf(out, "adopted: ring %x of %d, etcd %s (%s); nothing was changed in it\n", found.identity.Cluster, found.spec.Nodes, found.spec.Version, found.spec.Security)
	fmt.Fprintln(out, "next, on one machine after the other: end its etcd for good, move its data directory to "+filepath.Join(defaultData, launcher.DataDir)+", and start")
	for _, m := range found.identity.Members {
		fmt.Fprintf(out, "  ringadm auto %s --machine %s --address %s\n", address, m.Machine, ring.Address(m.PeerURL))
	}
	return nil
}

// authority reads the authorities' files; nil: none is named.
func (f adoptFlags) authority() (*store.Authority, error) {
	var a store.Authority
	files := []struct {
		flag, file string
		to         *[]byte
	}{{"--ca-cert", f.caCert, &a.CertPEM}, {"--ca-key", f.caKey, &a.KeyPEM}, {"--peer-ca-cert", f.peerCACert, &a.PeerCertPEM}, {"--peer-ca-key", f.peerCAKey, &a.PeerKeyPEM}}
	for i, named := range files {
		if named.file == "" {
			continue
		}
		if pair := files[i^1]; pair.file == "" {
			return nil, usageError{fmt.Errorf("%s is missing: it goes together with %s", pair.flag, named.flag)}
		}
		text, err := os.ReadFile(named.file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", named.flag, err)
		}
		*named.to = text
	}
	switch {
	case f.caCert == "" && f.peerCACert != "":
		return nil, usageError{errors.New("--ca-cert is missing: --peer-ca-cert is for an authority that peers have besides it")}
	case f.caCert == "":
		return nil, nil
	}
	if err := a.Validate(); err != nil {
		return nil, fmt.Errorf("%s and %s: %w", files[0].flag, files[1].flag, err)
	}
	return &a, nil
}

// adopted is what the store is to say of a ring that was there before.
type adopted struct {
	spec     store.Spec
	identity store.Identity
}

// find asks the ring what it is, and refuses what agents couldn't run on.
func (f adoptFlags) find(ctx context.Context, authority *store.Authority) (found adopted, err error) {
	h := host.NewReal("", "", "", nil)
	opened := &admin.Ring{Host: h}
	defer opened.Close()
	opened.Use(words(f.endpoints)...)
	if opened.Secure, err = visitor(authority); err != nil {
		return found, err
	}
	members, err := opened.Ask(ctx)
	if err != nil {
		return found, fmt.Errorf("reading the member list: %w", err)
	}
	if err := opened.Settle(ctx); err != nil {
		return found, fmt.Errorf("the ring takes no write: %w; mend that first: agents keep their records in it, and have no user of etcd's", err)
	}
	return describe(members, h.Nonce(), authority != nil)
}

// visitor is a certificate for this one look at the ring; nil: its clients speak plain text.
func visitor(authority *store.Authority) (*tls.Config, error) {
	if authority == nil {
		return nil, nil
	}
	signs, err := pki.ParseAuthority(authority.CertPEM, authority.KeyPEM)
	if err != nil {
		return nil, err
	}
	pair, err := signs.IssueClient(time.Now(), pki.Subject{CommonName: "ringadm-adopt"}, time.Hour)
	if err != nil {
		return nil, err
	}
	return pki.ClientTLS(authority.CertPEM, pair)
}

// describe makes the ring's records of what its members answered.
func describe(members []admin.Asked, nonce string, secure bool) (found adopted, err error) {
	found.identity = store.Identity{Token: "adopted-" + nonce, Epoch: 1, Static: true, Cluster: members[0].Cluster}
	var peers []string
	for _, m := range members {
		initialMember, err := asInitialMember(m)
		if err != nil {
			return found, fmt.Errorf("member %s: %w", m, err)
		}
		found.identity.Members, peers = append(found.identity.Members, initialMember), append(peers, initialMember.PeerURL)
	}
	release := members[0].Version
	if i := slices.IndexFunc(members, func(m admin.Asked) bool { return m.Version != release }); i >= 0 {
		return found, fmt.Errorf("members run %s and %s: bring all to one release first", release, members[i].Version)
	}
	slices.SortFunc(found.identity.Members, func(a, b store.InitialMember) int { return strings.Compare(a.Machine, b.Machine) })
	found.spec = store.Spec{Nodes: len(members), Version: release, Security: ring.TLS}
	speaks := ring.Listens(peers)
	switch {
	case speaks == ring.Mixed:
		return found, errors.New("some members speak TLS to their peers and some don't: bring all to one first")
	case !secure && speaks == ring.TLS:
		return found, usageError{errors.New("its members speak TLS to each other, and --ca-cert with --ca-key is missing, by which agents issue their certificates")}
	case !secure:
		found.spec.Security = ring.Plain
	case speaks == ring.Plain:
		found.spec.Peers = ring.Plain
	}
	return found, nil
}

// asInitialMember describes a member that an agent can take over: where the agent says that it
// is, and by the name of its machine, which etcd takes from whoever starts it.
func asInitialMember(m admin.Asked) (store.InitialMember, error) {
	switch {
	case m.Err != nil:
		return store.InitialMember{}, fmt.Errorf("it doesn't answer: %w; mend it, or remove it, first", m.Err)
	case m.Learner:
		return store.InitialMember{}, errors.New("it is a learner: promote it, or remove it, first")
	case len(m.PeerURLs) != 1:
		return store.InitialMember{}, fmt.Errorf("it has peer URLs %s, and is to have one: etcdctl member update %s --peer-urls=URL", strings.Join(m.PeerURLs, " and "), m.ID)
	}
	u, err := url.Parse(m.PeerURLs[0])
	if err != nil || u.Port() != strconv.Itoa(ring.PeerPort) {
		return store.InitialMember{}, fmt.Errorf("its peers reach it at %s, and agents have etcd listen at port %d: move it there first, with etcdctl member update %s", m.PeerURLs[0], ring.PeerPort, m.ID)
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
		return store.InitialMember{}, fmt.Errorf("its peer URL %s is no address: etcdctl member update %s --peer-urls=URL", m.PeerURLs[0], m.ID)
	}
	return store.InitialMember{Name: m.Name, Machine: m.Name, PeerURL: m.PeerURLs[0], ClientURL: m.Endpoint, Member: uint64(m.ID)}, nil
}

// write keeps it in a store that holds no other ring. Agents wait for the spec, so it comes
// last, and whoever is cut off before it begins again.
func (found adopted) write(ctx context.Context, address string, authority *store.Authority) error {
	s, specs, err := newStore(ctx, address, "a store is for one ring; choose another")
	if err != nil {
		return err
	}
	defer s.Close()
	if authority != nil {
		kept, err := first(ctx, store.Log[store.Authority]{Store: s, Prefix: auto.AuthorityPrefix}, *authority)
		if err != nil || !bytes.Equal(kept.CertPEM, authority.CertPEM) {
			return cmp.Or(err, fmt.Errorf("%s holds another authority: choose another store", address))
		}
	}
	kept, err := first(ctx, store.Log[store.Identity]{Store: s, Prefix: auto.IdentityPrefix}, found.identity)
	if err != nil || kept.Cluster != found.identity.Cluster {
		return cmp.Or(err, fmt.Errorf("%s holds the bootstrap record of ring %x, and this is ring %x: choose another store", address, kept.ClusterID(), found.identity.Cluster))
	}
	formed := store.Formed{ClusterID: fmt.Sprintf("%x", found.identity.Cluster), Epoch: found.identity.Epoch}
	if _, err := first(ctx, store.Log[store.Formed]{Store: s, Prefix: auto.FormedPrefix}, formed); err != nil {
		return err
	}
	_, err = specs.Append(ctx, 0, found.spec)
	return err
}
