// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/client/pkg/v3/types"

	"github.com/ringproof/ringproof/sim/etcd/mvcc"
)

// TLSFiles are the flags of one side's transport security, as paths on the
// machine. What the certificates say is the host's to judge.
type TLSFiles struct {
	CA, Cert, Key string
	ClientAuth    bool
}

// Config is what etcd's command line says.
type Config struct {
	Name, DataDir                 string
	ListenPeer, AdvertisePeer     []string
	ListenClient, AdvertiseClient []string

	InitialCluster, State, Token string

	Heartbeat, Election time.Duration
	AdvanceTicks        bool // --initial-election-tick-advance
	PreVote             bool
	StrictReconfig      bool
	CorruptCheck        bool // compare hashes with the peers before serving
	SnapCount           uint64
	CatchUp             uint64 // entries kept for slow followers after a snapshot
	Quota               int64  // bytes; 0 is etcd's default of 2 GiB
	MaxRequest          int    // bytes
	MaxTxnOps           int
	MaxLearners         int
	ProgressNotify      time.Duration
	CompactionMode      string // is parsed; nothing is compacted on its own
	CompactionRetention string

	PeerTLS, ClientTLS TLSFiles
}

// ReqTimeout is how long etcd waits for a proposal or a read index: room for
// one election.
func (c Config) ReqTimeout() time.Duration { return 5*time.Second + 2*c.Election }

// PeerDialTimeout is how long etcd waits for a peer to take a connection.
func (c Config) PeerDialTimeout() time.Duration { return time.Second + c.Election }

func (c Config) electionTicks() int { return int(c.Election / c.Heartbeat) }

// errUsage is a command line that etcd doesn't understand: it exits with 2,
// and with 1 for one that it understands and refuses.
type errUsage struct{ error }

// Parse reads etcd's flags as the release does. Flags without a meaning in the
// model are accepted where the release has them.
func Parse(version string, args []string) (Config, error) {
	v, err := semver.NewVersion(strings.TrimPrefix(version, "v"))
	if err != nil {
		return Config{}, errUsage{fmt.Errorf("no etcd release: %q", version)}
	}
	p := parser{flags: flag.NewFlagSet("etcd", flag.ContinueOnError), minor: int(v.Minor)}
	p.flags.SetOutput(io.Discard)
	p.define()
	if err := p.flags.Parse(args); err != nil {
		return Config{}, errUsage{err}
	}
	if p.flags.NArg() > 0 {
		return Config{}, fmt.Errorf("%q is not a valid flag", p.flags.Arg(0))
	}
	return p.finish()
}

type parser struct {
	flags                                 *flag.FlagSet
	minor                                 int
	c                                     Config
	heartbeat, election                   uint
	listenPeer, advertisePeer             string
	listenClient, advertiseClient         string
	gates                                 string
	experimentalCorrupt, forceNew         bool
	progress, experimentalProgress        time.Duration
	catchUp, experimentalCatchUp, snapCnt uint64
	request, txnOps                       uint
}

const (
	defaultPeerURL   = "http://localhost:2380"
	defaultClientURL = "http://localhost:2379"
	maxElection      = 50000 // milliseconds
)

func (p *parser) define() {
	f, c := p.flags, &p.c
	f.StringVar(&c.Name, "name", "default", "")
	f.StringVar(&c.DataDir, "data-dir", "", "")
	f.StringVar(&p.listenPeer, "listen-peer-urls", defaultPeerURL, "")
	f.StringVar(&p.advertisePeer, "initial-advertise-peer-urls", defaultPeerURL, "")
	f.StringVar(&p.listenClient, "listen-client-urls", defaultClientURL, "")
	f.StringVar(&p.advertiseClient, "advertise-client-urls", defaultClientURL, "")
	f.StringVar(&c.InitialCluster, "initial-cluster", "", "")
	f.StringVar(&c.State, "initial-cluster-state", "new", "")
	f.StringVar(&c.Token, "initial-cluster-token", "etcd-cluster", "")
	f.UintVar(&p.heartbeat, "heartbeat-interval", 100, "")
	f.UintVar(&p.election, "election-timeout", 1000, "")
	f.BoolVar(&c.AdvanceTicks, "initial-election-tick-advance", true, "")
	f.BoolVar(&c.PreVote, "pre-vote", true, "")
	f.BoolVar(&c.StrictReconfig, "strict-reconfig-check", true, "")
	f.Uint64Var(&p.snapCnt, "snapshot-count", p.defaultSnapCount(), "")
	f.Int64Var(&c.Quota, "quota-backend-bytes", 0, "")
	f.UintVar(&p.request, "max-request-bytes", 1.5*1024*1024, "")
	f.UintVar(&p.txnOps, "max-txn-ops", mvcc.MaxTxnOps, "")
	f.StringVar(&c.CompactionMode, "auto-compaction-mode", "periodic", "")
	f.StringVar(&c.CompactionRetention, "auto-compaction-retention", "0", "")
	f.BoolVar(&p.forceNew, "force-new-cluster", false, "")
	c.MaxLearners = 1
	p.defineByRelease()
	p.defineTLS("", &c.ClientTLS)
	p.defineTLS("peer-", &c.PeerTLS)
	p.defineUnused()
}

func (p *parser) defaultSnapCount() uint64 {
	if p.minor <= 5 {
		return 100000
	}
	return 10000
}

func (p *parser) defineByRelease() {
	if p.minor <= 6 {
		p.flags.BoolVar(&p.experimentalCorrupt, "experimental-initial-corrupt-check", false, "")
		p.flags.DurationVar(&p.experimentalProgress, "experimental-watch-progress-notify-interval", 0, "")
		p.flags.Uint64Var(&p.experimentalCatchUp, "experimental-snapshot-catchup-entries", 0, "")
	}
	if p.minor >= 6 {
		p.flags.StringVar(&p.gates, "feature-gates", "", "")
		p.flags.DurationVar(&p.progress, "watch-progress-notify-interval", 0, "")
		p.flags.Uint64Var(&p.catchUp, "snapshot-catchup-entries", 0, "")
		p.flags.IntVar(&p.c.MaxLearners, "max-learners", 1, "")
	}
}

func (p *parser) defineTLS(prefix string, files *TLSFiles) {
	p.flags.StringVar(&files.CA, prefix+"trusted-ca-file", "", "")
	p.flags.StringVar(&files.Cert, prefix+"cert-file", "", "")
	p.flags.StringVar(&files.Key, prefix+"key-file", "", "")
	p.flags.BoolVar(&files.ClientAuth, prefix+"client-cert-auth", false, "")
}

// unused are flags that change nothing in the model.
var (
	unused = strings.Fields(`wal-dir max-snapshots max-wals listen-client-http-urls listen-metrics-urls backend-bbolt-freelist-type backend-batch-interval
		backend-batch-limit grpc-keepalive-min-time grpc-keepalive-interval grpc-keepalive-timeout max-concurrent-streams
		raft-read-timeout raft-write-timeout discovery-srv discovery-srv-name discovery-fallback v2-deprecation client-cert-file client-key-file
		client-crl-file client-cert-allowed-hostname peer-client-cert-file peer-client-key-file peer-crl-file peer-cert-allowed-cn
		peer-cert-allowed-hostname self-signed-cert-validity cipher-suites tls-min-version tls-max-version cors host-whitelist logger
		log-outputs log-level log-rotation-config-json metrics auth-token bcrypt-cost auth-token-ttl`)
	unusedSwitches = strings.Fields(`socket-reuse-port socket-reuse-address auto-tls peer-auto-tls enable-log-rotation enable-pprof
		enable-grpc-gateway unsafe-no-fsync`)
	unusedSince6 = strings.Fields(`log-format corrupt-check-time compact-hash-check-time compaction-batch-limit
		compaction-sleep-interval downgrade-check-time warning-apply-duration warning-unary-request-duration bootstrap-defrag-threshold-megabytes`)
	unusedUntil6 = strings.Fields(`experimental-corrupt-check-time experimental-compact-hash-check-time experimental-compaction-batch-limit
		experimental-compaction-sleep-interval experimental-downgrade-check-time experimental-warning-apply-duration
		experimental-warning-unary-request-duration experimental-bootstrap-defrag-threshold-megabytes`)
	unusedSwitchesUntil6 = strings.Fields(`experimental-compact-hash-check-enabled experimental-enable-lease-checkpoint
		experimental-enable-lease-checkpoint-persist experimental-memory-mlock experimental-txn-mode-write-with-shared-buffer
		experimental-stop-grpc-service-on-defrag experimental-peer-skip-client-san-verification`)
)

func (p *parser) defineUnused() {
	texts, switches := unused, unusedSwitches
	if p.minor >= 6 {
		texts = slices.Concat(texts, unusedSince6)
	}
	if p.minor <= 6 {
		texts, switches = slices.Concat(texts, unusedUntil6), slices.Concat(switches, unusedSwitchesUntil6)
	}
	if p.minor == 5 {
		switches = append(slices.Clone(switches), "enable-v2")
	}
	for _, name := range texts {
		p.flags.String(name, "", "")
	}
	for _, name := range switches {
		p.flags.Bool(name, false, "")
	}
}

func (p *parser) finish() (Config, error) {
	c := p.c
	c.SnapCount, c.CatchUp = p.snapCnt, max(p.catchUp, p.experimentalCatchUp)
	if c.SnapCount == 0 {
		c.SnapCount = p.defaultSnapCount()
	}
	if c.CatchUp == 0 {
		c.CatchUp = 5000
	}
	c.MaxRequest, c.MaxTxnOps = int(p.request), int(p.txnOps)
	c.ProgressNotify = max(p.progress, p.experimentalProgress)
	c.CorruptCheck = p.experimentalCorrupt
	for gate := range strings.SplitSeq(p.gates, ",") {
		name, on, _ := strings.Cut(gate, "=")
		if set, err := strconv.ParseBool(on); name == "InitialCorruptCheck" && err == nil {
			c.CorruptCheck = set
		}
	}
	if c.DataDir == "" {
		c.DataDir = c.Name + ".etcd"
	}
	if p.forceNew {
		return c, errors.New("--force-new-cluster is not modelled: it loses what the other members acknowledged")
	}
	if err := p.urls(&c); err != nil {
		return c, err
	}
	if !p.given("initial-cluster") {
		c.InitialCluster = c.Name + "=" + strings.Join(c.AdvertisePeer, ","+c.Name+"=")
	}
	return c, p.check(&c)
}

// given reports whether the command line has a flag: one that is empty is no default.
func (p *parser) given(name string) (given bool) {
	p.flags.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

func (p *parser) urls(c *Config) error {
	for _, u := range []struct {
		flag, text string
		to         *[]string
	}{
		{"listen-peer-urls", p.listenPeer, &c.ListenPeer},
		{"initial-advertise-peer-urls", p.advertisePeer, &c.AdvertisePeer},
		{"listen-client-urls", p.listenClient, &c.ListenClient},
		{"advertise-client-urls", p.advertiseClient, &c.AdvertiseClient},
	} {
		parsed, err := types.NewURLs(strings.Split(u.text, ","))
		if err != nil {
			return errUsage{fmt.Errorf("invalid value %q for flag -%s: %w", u.text, u.flag, err)}
		}
		*u.to = parsed.StringSlice()
	}
	return nil
}

func (p *parser) check(c *Config) error {
	if err := checkBind(slices.Concat(c.ListenPeer, c.ListenClient)); err != nil {
		return err
	}
	c.Heartbeat = time.Duration(p.heartbeat) * time.Millisecond
	c.Election = time.Duration(p.election) * time.Millisecond
	switch {
	case c.State != "new" && c.State != "existing":
		return errUsage{fmt.Errorf("invalid value %q for flag -initial-cluster-state: invalid value %q", c.State, c.State)}
	case p.heartbeat == 0:
		return fmt.Errorf("--heartbeat-interval must be >0 (set to %dms)", p.heartbeat)
	case p.election == 0:
		return fmt.Errorf("--election-timeout must be >0 (set to %dms)", p.election)
	case 5*p.heartbeat > p.election:
		return fmt.Errorf("--election-timeout[%vms] should be at least as 5 times as --heartbeat-interval[%vms]", p.election, p.heartbeat)
	case p.election > maxElection:
		return fmt.Errorf("--election-timeout[%vms] is too long, and should be set less than %vms", p.election, maxElection)
	case p.given("listen-client-urls") && !p.given("advertise-client-urls"):
		return errors.New("--advertise-client-urls is required when --listen-client-urls is set explicitly")
	case c.CompactionMode != "periodic" && c.CompactionMode != "revision":
		return fmt.Errorf("unknown auto-compaction-mode %q", c.CompactionMode)
	}
	return nil
}

// checkBind refuses names: etcd listens on addresses.
func checkBind(urls []string) error {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return err
		}
		host := u.Hostname()
		if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
			return fmt.Errorf("expected IP in URL for binding (%s)", text)
		}
	}
	return nil
}
