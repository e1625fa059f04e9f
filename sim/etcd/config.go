// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-semver/semver"
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
	ForceNew            bool   // --force-new-cluster
	CompactionMode      string // what Retention is of: "periodic", or "revision"
	CompactionRetention string
	Retention           time.Duration // of old revisions, or how many; 0: nothing is compacted on its own

	PeerTLS, ClientTLS TLSFiles
}

// ReqTimeout is how long etcd waits for a proposal or a read index: room for
// one election.
func (c Config) ReqTimeout() time.Duration { return 5*time.Second + 2*c.Election }

// PeerDialTimeout is how long etcd waits for a peer to take a connection.
func (c Config) PeerDialTimeout() time.Duration { return time.Second + c.Election }

func (c Config) electionTicks() int { return int(c.Election / c.Heartbeat) }

// errExit is a command line that ends etcd before it looks at anything else, with this
// code.
type errExit struct {
	error
	code int
}

// Parse reads etcd's flags as the release does (etcdmain/config.go and embed/config.go).
// Flags without a meaning in the model are taken where the release has them, with the
// values that it takes.
func Parse(version string, args []string) (Config, error) {
	v, err := semver.NewVersion(strings.TrimPrefix(version, "v"))
	if err != nil {
		return Config{}, errExit{fmt.Errorf("no etcd release: %q", version), 2}
	}
	p := newParser(int(v.Minor))
	switch err := p.flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return Config{}, errExit{errors.New(""), 0}
	case err != nil:
		return Config{}, errExit{err, 2}
	case p.flags.NArg() > 0 && p.minor == 5:
		return Config{}, fmt.Errorf("'%s' is not a valid flag", p.flags.Arg(0))
	case p.flags.NArg() > 0:
		return Config{}, fmt.Errorf("%q is not a valid flag", p.flags.Arg(0))
	case p.value("version") == "true":
		return Config{}, errExit{errors.New(""), 0}
	}
	return p.finish()
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
	c.CorruptCheck = p.enabled("InitialCorruptCheck")
	c.Heartbeat = time.Duration(p.heartbeat) * time.Millisecond
	c.Election = time.Duration(p.election) * time.Millisecond
	if c.DataDir == "" {
		c.DataDir = c.Name + ".etcd"
	}
	c.ListenPeer, c.AdvertisePeer = p.listenPeer.is, p.advertisePeer.is
	c.ListenClient, c.AdvertiseClient = p.listenClient.is, p.advertiseClient.is
	if !p.given("initial-cluster") && len(p.discovery()) == 0 {
		c.InitialCluster = c.Name + "=" + strings.Join(c.AdvertisePeer, ","+c.Name+"=")
	}
	err := p.check(&c)
	return c, err
}

// given reports whether the command line has a flag: one that is empty is no default.
func (p *parser) given(name string) (given bool) {
	p.flags.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// value is what a flag says, which the release may not have.
func (p *parser) value(name string) string {
	if f := p.flags.Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// discovery are the ways to find the other members that are asked for.
func (p *parser) discovery() (given []string) {
	for _, name := range []string{"discovery", "discovery-srv", "discovery-endpoints"} {
		if p.value(name) != "" {
			given = append(given, name)
		}
	}
	return given
}

// check refuses what etcd refuses, in its order (Config.Validate in embed/config.go):
// the first refusal is what it says.
func (p *parser) check(c *Config) error {
	for _, refuse := range []func(*Config) error{p.checkTwice, p.checkLogging, p.checkURLs, p.checkDiscovery, p.checkTimes, p.checkModes, p.checkTLS, p.checkRetention, p.checkToken} {
		if err := refuse(c); err != nil {
			return err
		}
	}
	return nil
}

// checkTwice refuses the old and the new name of one thing: 3.6 has both.
func (p *parser) checkTwice(*Config) error {
	for _, old := range slices.Sorted(maps.Keys(experimentalGates)) {
		gate := experimentalGates[old]
		if p.given(old) && strings.Contains(p.value("feature-gates"), gate) {
			set := fmt.Sprintf("--feature-gates=%s=%t", gate, p.enabled(gate))
			return fmt.Errorf("cannot specify both flags: --%s=%s and %s at the same time, please just use %s", old, p.value(old), set, set)
		}
	}
	if p.minor >= 6 && p.value("discovery-fallback") == "proxy" {
		return fmt.Errorf("v2 proxy is deprecated, and --discovery-fallback can't be configured as %q", "proxy")
	}
	for _, name := range strings.Fields(renamedIn6) {
		if old := "experimental-" + name; p.given(old) && p.given(name) {
			return fmt.Errorf("cannot set --%s and --%s at the same time, please use --%s only", old, name, name)
		}
	}
	return nil
}

func (p *parser) checkLogging(*Config) error {
	if format := p.value("log-format"); format != "" && format != "json" && format != "console" {
		return fmt.Errorf("unknown log format: %s, supported values json, console", format)
	}
	switch logger := p.value("logger"); logger {
	case "zap":
		return nil
	case "capnslog":
		return errors.New("--logger=capnslog is removed in v3.5")
	default:
		return fmt.Errorf("unknown logger option %q", logger)
	}
}

func (p *parser) checkURLs(c *Config) error {
	if err := checkBind(slices.Concat(c.ListenPeer, c.ListenClient)); err != nil {
		return err
	}
	if err := checkHosts(c.AdvertisePeer); err != nil {
		return fmt.Errorf(`--initial-advertise-peer-urls %q must be "host:port" (%w)`, strings.Join(c.AdvertisePeer, ","), err)
	}
	if err := checkHosts(c.AdvertiseClient); err != nil {
		form := `"host:port"`
		if p.minor >= 7 {
			form = `in the format "host:port", "unix:/path/to/socket" or "unixs:/path/to/socket"`
		}
		return fmt.Errorf(`--advertise-client-urls %q must be %s (%w)`, strings.Join(c.AdvertiseClient, ","), form, err)
	}
	return nil
}

// waysToFind is how a member can be told of the others, by the minor release.
var waysToFind = map[int]string{
	5: `"initial-cluster", "discovery" or "discovery-srv"`,
	6: `"initial-cluster", "discovery", "discovery-endpoints" or "discovery-srv"`,
	7: `"initial-cluster", "discovery-endpoints" or "discovery-srv"`,
}

func (p *parser) checkDiscovery(c *Config) error {
	given := p.discovery()
	switch {
	case len(given) == 0:
	case len(given) > 1 || c.InitialCluster != "":
		return fmt.Errorf("multiple discovery or bootstrap flags are set. Choose one of %s", waysToFind[p.minor])
	default:
		return fmt.Errorf("--%s is not modelled: give --initial-cluster: %w in sim", given[0], errors.ErrUnsupported)
	}
	return nil
}

func (p *parser) checkTimes(*Config) error {
	switch {
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
	}
	return nil
}

func (p *parser) checkModes(c *Config) error {
	switch c.CompactionMode {
	case "periodic", "revision":
	case "":
		if p.minor >= 6 {
			return errors.New("undefined auto-compaction-mode")
		}
	default:
		return fmt.Errorf("unknown auto-compaction-mode %q", c.CompactionMode)
	}
	if p.enabled("LeaseCheckpointPersist") && !p.enabled("LeaseCheckpoint") {
		if p.minor == 5 {
			return errors.New("setting experimental-enable-lease-checkpoint-persist requires experimental-enable-lease-checkpoint")
		}
		return errors.New("enabling feature gate LeaseCheckpointPersist requires enabling feature gate LeaseCheckpoint")
	}
	for _, name := range []string{"experimental-compact-hash-check-time", "compact-hash-check-time"} {
		if every, err := time.ParseDuration(p.value(name)); p.given(name) && err == nil && every <= 0 {
			return fmt.Errorf("--%s must be >0 (set to %v)", name, every)
		}
	}
	return nil
}

func (p *parser) checkTLS(*Config) error {
	lowest, highest := p.value("tls-min-version"), p.value("tls-max-version")
	for _, version := range []string{lowest, highest} {
		if version != "" && version != "TLS1.2" && version != "TLS1.3" {
			return fmt.Errorf("unexpected TLS version %q (must be one of: TLS1.2, TLS1.3)", version)
		}
	}
	switch {
	case highest != "" && lowest > highest:
		return fmt.Errorf("min version (%s) is greater than max version (%s)", lowest, highest)
	case lowest == "TLS1.3" && p.value("cipher-suites") != "":
		return errors.New("cipher suites cannot be configured when only TLS1.3 is enabled")
	}
	return nil
}

// checkRetention is parseCompactionRetention in embed/etcd.go: hours, revisions, or a
// duration.
func (p *parser) checkRetention(c *Config) error {
	number, err := strconv.Atoi(cmp.Or(c.CompactionRetention, "0"))
	if err == nil && number >= 0 {
		c.Retention = time.Duration(number)
		if c.CompactionMode != "revision" {
			c.Retention *= time.Hour
		}
		return nil
	}
	if c.Retention, err = time.ParseDuration(c.CompactionRetention); err != nil {
		return fmt.Errorf("error parsing CompactionRetention: %w", err)
	}
	return nil
}

// checkToken is decomposeOpts and NewTokenProvider in auth/store.go.
func (p *parser) checkToken(*Config) error {
	kind, options, _ := strings.Cut(p.value("auth-token"), ",")
	known := kind == "" || kind == "simple" || kind == "jwt"
	for option := range strings.SplitSeq(options, ",") {
		known = known && (option == "" || strings.Count(option, "=") == 1)
	}
	if !known {
		return errors.New("auth: invalid auth options")
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

// checkHosts refuses to advertise no host.
func checkHosts(urls []string) error {
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil && strings.HasPrefix(u.Host, ":") {
			return fmt.Errorf("unexpected empty host (%s)", text)
		}
	}
	return nil
}
