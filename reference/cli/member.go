// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/launcher"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/ring"
)

// reach are the flags of every command that talks to a ring.
type reach struct {
	endpoints         string
	data              string
	cacert, cert, key string
}

func (r *reach) flags(c *cobra.Command) {
	endpointsFlag(c.PersistentFlags(), &r.endpoints)
	c.PersistentFlags().StringVar(&r.data, "data", defaultData, "data filesystem of a machine of the ring, for its client certificate")
	c.PersistentFlags().StringVar(&r.cacert, "cacert", os.Getenv("ETCDCTL_CACERT"), "whom the members' certificates are by, with --cert and --key, instead of --data (ETCDCTL_CACERT)")
	c.PersistentFlags().StringVar(&r.cert, "cert", os.Getenv("ETCDCTL_CERT"), "client certificate (ETCDCTL_CERT)")
	c.PersistentFlags().StringVar(&r.key, "key", os.Getenv("ETCDCTL_KEY"), "its private key (ETCDCTL_KEY)")
}

// defaultData is where a machine's data filesystem is, if nobody says otherwise.
const defaultData = "/var/lib/ringadm"

func endpointsFlag(flags *pflag.FlagSet, to *string) {
	flags.StringVar(to, "endpoints", cmp.Or(os.Getenv("RINGADM_ENDPOINTS"), os.Getenv("ETCDCTL_ENDPOINTS")), "client URLs of members, comma-separated (RINGADM_ENDPOINTS, ETCDCTL_ENDPOINTS)")
}

var errNoEndpoints = usageError{errors.New("--endpoints is missing: the client URLs of members, as https://10.0.0.1:2379")}

// open reaches the ring with the credentials of this machine.
func (r reach) open() (*admin.Ring, error) {
	if r.endpoints == "" {
		return nil, errNoEndpoints
	}
	h := host.NewReal("", r.data, "", nil)
	if r.cacert == "" && r.cert == "" && r.key == "" {
		return launcher.Reach(h, words(r.endpoints))
	}
	opened := &admin.Ring{Host: h}
	opened.Use(words(r.endpoints)...)
	var err error
	opened.Secure, err = r.credentials()
	return opened, err
}

// reached has the work done on the ring, and closes it.
func (r reach) reached(work func(*admin.Ring) error) error {
	opened, err := r.open()
	if err != nil {
		return err
	}
	defer opened.Close()
	return work(opened)
}

// credentials are those of files that are named one by one.
func (r reach) credentials() (*tls.Config, error) {
	var texts [3][]byte
	for i, f := range []struct{ flag, file string }{{"--cacert", r.cacert}, {"--cert", r.cert}, {"--key", r.key}} {
		if f.file == "" {
			return nil, usageError{fmt.Errorf("%s is missing: --cacert, --cert and --key go together", f.flag)}
		}
		var err error
		if texts[i], err = os.ReadFile(f.file); err != nil {
			return nil, fmt.Errorf("%s: %w", f.flag, err)
		}
	}
	c, err := pki.ClientTLS(texts[0], pki.Pair{CertPEM: texts[1], KeyPEM: texts[2]})
	if err != nil {
		return nil, fmt.Errorf("--cacert, --cert and --key: %w", err)
	}
	return c, nil
}

// do carries out what a person asks for. It is decided on the membership as it is
// when the command begins, and is the lead's as little as the person is: it waits
// for no lead, and outruns none. That the member is the one that was meant its ID
// says, which no other ever has. It says what was done: who mistypes the ID of a member
// that is to go, and hears nothing, believes that it has gone.
func (r reach) do(c *cobra.Command, a ring.Action) error {
	return r.reached(func(opened *admin.Ring) error { return carryOut(c, opened, a) })
}

func carryOut(c *cobra.Command, opened *admin.Ring, a ring.Action) error {
	ctx := c.Context()
	list, err := opened.List(ctx)
	if err != nil {
		return fmt.Errorf("%s: reading the member list first: %w", a.Kind, err)
	}
	if a.Kind == ring.Remove && !slices.ContainsFunc(list.Members, func(m *etcdserverpb.Member) bool { return ring.ID(m.ID) == a.Member }) {
		fmt.Fprintf(c.OutOrStdout(), "nothing was removed: ring %x has no member %s; ringadm member list shows those that it has\n", list.Header.GetClusterId(), a.Member)
		return nil
	}
	a.On = admin.Roles(list.Members)
	if err := opened.Do(ctx, a, admin.Unfenced()); err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "done: %s\n", a)
	return nil
}

func memberCommand() *cobra.Command {
	var r reach
	c := &cobra.Command{
		Use:   "member",
		Short: "list, add, bind, promote, upgrade, update, remove and forget members, and move leadership",
		Long: `member lists the members, and changes the membership, one change at a time.

A change is refused if the membership is not the same any more when it is made
as when the command began. The automation doesn't stop for it: so that it
changes nothing meanwhile, suspend it, with ringadm spec STORE paused=true.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	r.flags(c)
	c.AddCommand(listCommand(&r), addCommand(&r), bindCommand(&r),
		byID(&r, ring.Promote, "make a learner that is caught up a voter"),
		byID(&r, ring.Remove, "remove a member from the ring; its etcd stops by itself"),
		byID(&r, ring.MoveLeader, "hand raft leadership to a member"), upgradeCommand(&r), listenCommand(&r), updateCommand(&r), forgetCommand(&r))
	return c
}

// forgetCommand is a person's word that a member which isn't listed has left.
func forgetCommand(r *reach) *cobra.Command {
	return &cobra.Command{
		Use:   "forget MEMBER-ID",
		Short: "take a member that is not listed for one that has left, and drop its record",
		Args:  exactly(1, "a member ID"),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			return r.reached(func(opened *admin.Ring) error { return forget(c, opened, id) })
		},
	}
}

func forget(c *cobra.Command, opened *admin.Ring, id ring.ID) error {
	view, err := opened.View(c.Context())
	switch {
	case err != nil:
		return fmt.Errorf("forget: reading the ring's records first: %w", err)
	case slices.ContainsFunc(view.Members, func(m *etcdserverpb.Member) bool { return ring.ID(m.ID) == id }):
		return fmt.Errorf("forget refused: member %s is in the ring; if it is to go: ringadm member remove %s", id, id)
	case !slices.Contains(view.Outlived(), id):
		return fmt.Errorf("forget refused: ring %x has no record of member %s", view.ClusterID, id)
	}
	accepted, err := opened.Dismiss(c.Context(), id, view)
	if err != nil {
		return err
	}
	made := ""
	if accepted > 0 {
		made = fmt.Sprintf("; nobody is missing any more, so that this ring is the ring, with what its log holds up to %d", accepted)
	}
	fmt.Fprintf(c.OutOrStdout(), "done: member %s has left, by your word%s\n", id, made)
	return nil
}

func byID(r *reach, kind ring.Kind, short string) *cobra.Command {
	return &cobra.Command{
		Use:   string(kind) + " MEMBER-ID",
		Short: short,
		Args:  exactly(1, "a member ID"),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			return r.do(c, ring.Action{Kind: kind, Member: id})
		},
	}
}

func addCommand(r *reach) *cobra.Command {
	var a ring.Action
	c := &cobra.Command{
		Use:   "add MACHINE --peer-url URL --disk ID",
		Short: "add a learner; bind it to a disk before it may start",
		Args:  exactly(1, "a machine's name"),
		RunE: func(c *cobra.Command, args []string) error {
			if a.PeerURL == "" {
				return usageError{errors.New("--peer-url is missing")}
			}
			a.Kind, a.Machine = ring.AddLearner, args[0]
			return r.do(c, a)
		},
	}
	c.Flags().StringVar(&a.PeerURL, "peer-url", "", "where the other members will reach it")
	c.Flags().StringVar(&a.Disk, "disk", "", "ID of the machine's data disk; ringadm info shows it")
	return c
}

func bindCommand(r *reach) *cobra.Command {
	var a ring.Action
	c := &cobra.Command{
		Use:   "bind MEMBER-ID --machine NAME --disk ID",
		Short: "record on which disk a member may start, and on no other",
		Args:  exactly(1, "a member ID"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if a.Machine == "" || a.Disk == "" {
				return usageError{errors.New("--machine and --disk are both needed")}
			}
			if a.Member, err = parseID(args[0]); err != nil {
				return err
			}
			a.Kind = ring.Bind
			return r.do(c, a)
		},
	}
	c.Flags().StringVar(&a.Machine, "machine", "", "the machine's name")
	c.Flags().StringVar(&a.Disk, "disk", "", "ID of the machine's data disk")
	c.Flags().StringVar((*string)(&a.Version), "version", "", "release of etcd that it begins with; by itself, what the ring ran before an upgrade")
	c.Flags().StringVar((*string)(&a.Peers), "peers", "", "how it listens for its peers: plain, mixed or tls; by itself, as members did when the ring was bootstrapped")
	return c
}

func upgradeCommand(r *reach) *cobra.Command {
	version := ""
	c := &cobra.Command{
		Use:   "upgrade MEMBER-ID --version VERSION",
		Short: "record which release of etcd a member is to run; its agent restarts it",
		Long: `upgrade records which release of etcd a member is to run, and its machine's agent
restarts it with that one.

To upgrade a ring ask for the release: ringadm spec STORE version=VERSION. This
command is for the one member that does not come up with it: it takes the member back
to what it ran. etcd starts there as long as no more than some of the members run the
newer minor.`,
		Args: exactly(1, "a member ID"),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			v, err := ring.ParseVersion(version)
			if err != nil {
				return usageError{fmt.Errorf("--version: %w", err)}
			}
			return r.do(c, ring.Action{Kind: ring.Upgrade, Member: id, Version: v})
		},
	}
	c.Flags().StringVar(&version, "version", "", "release of etcd, as v3.6.16 (required)")
	return c
}

func listenCommand(r *reach) *cobra.Command {
	peers := ""
	c := &cobra.Command{
		Use:   "listen MEMBER-ID --peers plain|mixed|tls",
		Short: "record how a member is to listen for its peers; its agent restarts it",
		Long: `listen records how a member is to listen for its peers, and its machine's agent
restarts it so: without TLS (plain), with it alone (tls), or for both (mixed).

To move a ring's peers to TLS ask for it: ringadm spec STORE peers=tls. This command is
for the one member that does not come up: it takes the member back to how it listened.
A member must listen at the URL that it is listed with.`,
		Args: exactly(1, "a member ID"),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			way := ring.Security(peers)
			if way != ring.Plain && way != ring.Mixed && way != ring.TLS {
				return usageError{fmt.Errorf("--peers %q: choose plain, mixed or tls", peers)}
			}
			return r.do(c, ring.Action{Kind: ring.Listen, Member: id, Peers: way})
		},
	}
	c.Flags().StringVar(&peers, "peers", "", "plain, mixed or tls (required)")
	return c
}

func updateCommand(r *reach) *cobra.Command {
	var a ring.Action
	c := &cobra.Command{
		Use:   "update MEMBER-ID --peer-url URL",
		Short: "list a voter at another URL, where its peers reach it",
		Args:  exactly(1, "a member ID"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if a.PeerURL == "" {
				return usageError{errors.New("--peer-url is missing")}
			}
			if a.Member, err = parseID(args[0]); err != nil {
				return err
			}
			a.Kind = ring.Update
			return r.do(c, a)
		},
	}
	c.Flags().StringVar(&a.PeerURL, "peer-url", "", "where the other members reach it from now on (required)")
	return c
}

func parseID(text string) (ring.ID, error) {
	var id uint64
	if n, err := fmt.Sscanf(text, "%x", &id); n != 1 || err != nil || ring.ID(id).String() != strings.ToLower(text) {
		return 0, usageError{fmt.Errorf("member ID %q: write it in hex, as ringadm member list prints it", text)}
	}
	return ring.ID(id), nil
}

func listCommand(r *reach) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "list",
		Short: "list the members, and on which machine and disk each lives",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			seen, _, err := r.observe(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), plain(seen.Members))
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "MEMBER\tMACHINE\tDISK\tROLE\tSERVING\tAGENT\tPEER URL")
			for _, m := range seen.Members {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%t\t%s\t%s\n", m.ID, m.Machine, m.Disk, role(m), m.Serving, agent(seen.Machines, m.Machine), m.PeerURL)
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// agent says whether the agent of a member's machine is there: etcd outlives it, so that a
// member serves and nobody looks after it.
func agent(machines []ring.Machine, name string) string {
	i := slices.IndexFunc(machines, func(m ring.Machine) bool { return m.Name == name })
	switch {
	case i < 0 || machines[i].Static:
		return "none"
	case machines[i].Present:
		return "there"
	}
	return "absent"
}

func role(m ring.Member) string {
	switch {
	case m.Learner:
		return "learner"
	case m.Leader:
		return "voter, leads"
	}
	return "voter"
}

func (r reach) observe(ctx context.Context) (ring.Observed, admin.View, error) {
	opened, err := r.open()
	if err != nil {
		return ring.Observed{}, admin.View{}, err
	}
	defer opened.Close()
	view, err := opened.View(ctx)
	if err != nil {
		return ring.Observed{}, admin.View{}, err
	}
	var observer admin.Observer
	return observer.Observe(ctx, opened, view), view, nil
}

// Overview is what ringadm info prints.
type Overview struct {
	ClusterID string `json:"clusterID"`
	Lead      string `json:"lead"`     // the machine that leads the automation
	Members   any    `json:"members"`  // of [ring.Member], as plain prints them
	Machines  any    `json:"machines"` // of [ring.Machine]
}

func infoCommand() *cobra.Command {
	var r reach
	c := &cobra.Command{
		Use:   "info",
		Short: "print what is known of the ring, its members and machines, as JSON",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			seen, view, err := r.observe(c.Context())
			if err != nil {
				return err
			}
			info := Overview{ClusterID: fmt.Sprintf("%x", view.ClusterID), Members: plain(seen.Members), Machines: plain(seen.Machines)}
			if view.Lead != nil {
				info.Lead = view.Lead.Holder
			}
			return printJSON(c.OutOrStdout(), info)
		},
	}
	r.flags(c)
	return c
}
