// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package etcd

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/pkg/v3/featuregate"
	"go.uber.org/zap"

	"github.com/ringproof/ringproof/sim/etcd/mvcc"
)

type parser struct {
	flags                                 *flag.FlagSet
	minor                                 int
	c                                     Config
	heartbeat, election                   uint
	listenPeer, advertisePeer             urlList
	listenClient, advertiseClient         urlList
	gates                                 featuregate.MutableFeatureGate // nil in 3.5
	progress, experimentalProgress        time.Duration
	catchUp, experimentalCatchUp, snapCnt uint64
	request, txnOps                       uint
}

const (
	defaultPeerURL   = "http://localhost:2380"
	defaultClientURL = "http://localhost:2379"
	maxElection      = 50000 // milliseconds
)

func newParser(minor int) *parser {
	p := &parser{flags: flag.NewFlagSet("etcd", flag.ContinueOnError), minor: minor,
		listenPeer: urlList{is: []string{defaultPeerURL}}, advertisePeer: urlList{is: []string{defaultPeerURL}},
		listenClient: urlList{is: []string{defaultClientURL}}, advertiseClient: urlList{is: []string{defaultClientURL}}}
	p.flags.SetOutput(io.Discard)
	p.define()
	return p
}

func (p *parser) define() {
	f, c := p.flags, &p.c
	f.StringVar(&c.Name, "name", "default", "")
	f.StringVar(&c.DataDir, "data-dir", "", "")
	f.Var(&p.listenPeer, "listen-peer-urls", "")
	f.Var(&p.advertisePeer, "initial-advertise-peer-urls", "")
	f.Var(&p.listenClient, "listen-client-urls", "")
	f.Var(&p.advertiseClient, "advertise-client-urls", "")
	f.StringVar(&c.InitialCluster, "initial-cluster", "", "")
	f.Var(&choice{is: &c.State, of: []string{"new", "existing"}}, "initial-cluster-state", "")
	c.State = "new"
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
	f.BoolVar(&c.ForceNew, "force-new-cluster", false, "")
	c.MaxLearners = 1
	p.defineByRelease()
	p.defineTLS("", &c.ClientTLS)
	p.defineTLS("peer-", &c.PeerTLS)
	p.defineInert()
}

func (p *parser) defaultSnapCount() uint64 {
	if p.minor <= 5 {
		return 100000
	}
	return 10000
}

func (p *parser) defineByRelease() {
	if p.minor <= 6 {
		p.flags.DurationVar(&p.experimentalProgress, "experimental-watch-progress-notify-interval", 0, "")
		p.flags.Uint64Var(&p.experimentalCatchUp, "experimental-snapshot-catchup-entries", 0, "")
	}
	if p.minor >= 6 {
		p.defineGates()
		p.flags.DurationVar(&p.progress, "watch-progress-notify-interval", 0, "")
		p.flags.Uint64Var(&p.catchUp, "snapshot-catchup-entries", 0, "")
		p.flags.IntVar(&p.c.MaxLearners, "max-learners", 1, "")
	}
	valid := []string{"not-yet", "write-only", "write-only-skip-check", "write-only-drop-data", "gone"}
	if p.minor >= 6 {
		valid = valid[1:]
	}
	p.flags.Var(&choice{is: new(string), of: valid, many: true}, "v2-deprecation", "")
	p.flags.Var(&choice{is: new(string), of: []string{"proxy", "exit"}}, "discovery-fallback", "")
	if p.minor == 5 {
		p.flags.Var(&choice{is: new(string), of: []string{"off", "readonly", "on"}}, "proxy", "")
	}
}

func (p *parser) defineTLS(prefix string, files *TLSFiles) {
	p.flags.StringVar(&files.CA, prefix+"trusted-ca-file", "", "")
	p.flags.StringVar(&files.Cert, prefix+"cert-file", "", "")
	p.flags.StringVar(&files.Key, prefix+"key-file", "", "")
	p.flags.BoolVar(&files.ClientAuth, prefix+"client-cert-auth", false, "")
}

// gates are the features that 3.6 can turn on and off, and newGates those of 3.7
// (features/etcd_features.go). experimentalGates are the flags that they replace.
var (
	gates = map[featuregate.Feature]featuregate.FeatureSpec{
		"StopGRPCServiceOnDefrag":      {PreRelease: featuregate.Alpha},
		"InitialCorruptCheck":          {PreRelease: featuregate.Alpha},
		"CompactHashCheck":             {PreRelease: featuregate.Alpha},
		"TxnModeWriteWithSharedBuffer": {PreRelease: featuregate.Beta, Default: true},
		"LeaseCheckpoint":              {PreRelease: featuregate.Alpha},
		"LeaseCheckpointPersist":       {PreRelease: featuregate.Alpha},
		"SetMemberLocalAddr":           {PreRelease: featuregate.Alpha},
	}
	newGates = map[featuregate.Feature]featuregate.FeatureSpec{
		"FastLeaseKeepAlive": {PreRelease: featuregate.Beta, Default: true},
		"PriorityRequest":    {PreRelease: featuregate.Alpha},
	}
	experimentalGates = map[string]string{
		"experimental-stop-grpc-service-on-defrag":       "StopGRPCServiceOnDefrag",
		"experimental-initial-corrupt-check":             "InitialCorruptCheck",
		"experimental-compact-hash-check-enabled":        "CompactHashCheck",
		"experimental-txn-mode-write-with-shared-buffer": "TxnModeWriteWithSharedBuffer",
		"experimental-enable-lease-checkpoint":           "LeaseCheckpoint",
		"experimental-enable-lease-checkpoint-persist":   "LeaseCheckpointPersist",
	}
)

func (p *parser) defineGates() {
	p.gates = featuregate.New("etcd", zap.NewNop())
	must(p.gates.Add(gates))
	if p.minor >= 7 {
		must(p.gates.Add(newGates))
	}
	p.gates.AddFlag(p.flags, "feature-gates")
}

// enabled reports whether a feature is on, by its gate or by the flag of before.
func (p *parser) enabled(gate string) bool {
	for flag, of := range experimentalGates { // order: at most one is of the gate
		if of == gate && p.given(flag) {
			return p.value(flag) == "true"
		}
	}
	return p.gates != nil && p.gates.Enabled(featuregate.Feature(gate))
}

// urlList is a flag of URLs. As in etcd an empty one changes nothing.
type urlList struct {
	is     []string
	exempt string // what is taken besides, as it is; "" for nothing
}

func (l *urlList) String() string { return strings.Join(l.is, ",") }

func (l *urlList) Set(text string) error {
	if text == l.exempt {
		return nil
	}
	parsed, err := types.NewURLs(strings.Split(text, ","))
	if err != nil {
		return err
	}
	l.is = slices.Compact(parsed.StringSlice())
	return nil
}

// choice is a flag with few values.
type choice struct {
	is   *string
	of   []string
	many bool // between commas
}

func (c *choice) String() string {
	if c.is == nil {
		return ""
	}
	return *c.is
}

func (c *choice) Set(text string) error {
	if c.many {
		for each := range strings.SplitSeq(text, ",") {
			if !slices.Contains(c.of, each) {
				return fmt.Errorf("invalid value %q", each)
			}
		}
	} else if !slices.Contains(c.of, text) {
		return errors.New("invalid value")
	}
	*c.is = text
	return nil
}

// renamedIn6 are the flags that were experimental until 3.6, which has both names.
const renamedIn6 = `compact-hash-check-time corrupt-check-time compaction-batch-limit watch-progress-notify-interval
	warning-apply-duration bootstrap-defrag-threshold-megabytes memory-mlock snapshot-catchup-entries compaction-sleep-interval
	downgrade-check-time peer-skip-client-san-verification enable-distributed-tracing distributed-tracing-address
	distributed-tracing-service-name distributed-tracing-instance-id distributed-tracing-sampling-rate`

// inert are the flags that change nothing in the model, by what values they take, and
// of which minor releases.
var inert = []struct {
	define      func(f *flag.FlagSet, name string)
	since, last int
	names       string
}{
	{text, 5, 7, `wal-dir backend-bbolt-freelist-type discovery-srv discovery-srv-name client-cert-file client-key-file client-crl-file
		client-cert-allowed-hostname peer-client-cert-file peer-client-key-file peer-crl-file peer-cert-allowed-cn
		peer-cert-allowed-hostname cipher-suites tls-max-version host-whitelist log-outputs log-level log-rotation-config-json
		metrics auth-token`},
	{text, 6, 7, `log-format discovery-endpoints discovery-token discovery-cert discovery-key discovery-cacert discovery-user
		discovery-password distributed-tracing-address distributed-tracing-service-name distributed-tracing-instance-id`},
	{text, 5, 6, `discovery discovery-proxy experimental-distributed-tracing-address experimental-distributed-tracing-service-name
		experimental-distributed-tracing-instance-id`},
	{text, 5, 5, `experimental-enable-v2v3`},
	{natural, 5, 7, `max-snapshots max-wals self-signed-cert-validity bcrypt-cost auth-token-ttl`},
	{natural, 6, 7, `bootstrap-defrag-threshold-megabytes`},
	{natural, 5, 6, `experimental-bootstrap-defrag-threshold-megabytes`},
	{natural, 5, 5, `proxy-failure-wait proxy-refresh-interval proxy-dial-timeout proxy-write-timeout proxy-read-timeout`},
	{integer, 5, 7, `backend-batch-limit`},
	{integer, 6, 7, `compaction-batch-limit distributed-tracing-sampling-rate`},
	{integer, 5, 6, `experimental-compaction-batch-limit experimental-distributed-tracing-sampling-rate`},
	{word, 5, 7, `max-concurrent-streams`},
	{duration, 5, 7, `backend-batch-interval grpc-keepalive-min-time grpc-keepalive-interval grpc-keepalive-timeout raft-read-timeout
		raft-write-timeout`},
	{duration, 6, 7, `corrupt-check-time compact-hash-check-time compaction-sleep-interval downgrade-check-time warning-apply-duration
		warning-unary-request-duration discovery-dial-timeout discovery-request-timeout discovery-keepalive-time
		discovery-keepalive-timeout`},
	{duration, 5, 6, `experimental-corrupt-check-time experimental-compact-hash-check-time experimental-compaction-sleep-interval
		experimental-downgrade-check-time experimental-warning-apply-duration`},
	{duration, 6, 6, `experimental-warning-unary-request-duration`},
	{onOff, 5, 7, `socket-reuse-port socket-reuse-address auto-tls peer-auto-tls enable-log-rotation enable-pprof enable-grpc-gateway
		unsafe-no-fsync version`},
	{onOff, 6, 7, `memory-mlock peer-skip-client-san-verification enable-distributed-tracing discovery-insecure-transport
		discovery-insecure-skip-tls-verify`},
	{onOff, 5, 6, `experimental-initial-corrupt-check experimental-compact-hash-check-enabled experimental-enable-lease-checkpoint
		experimental-enable-lease-checkpoint-persist experimental-memory-mlock experimental-txn-mode-write-with-shared-buffer
		experimental-stop-grpc-service-on-defrag experimental-peer-skip-client-san-verification
		experimental-enable-distributed-tracing`},
	{onOff, 5, 5, `enable-v2`},
	{urls, 5, 7, `listen-client-http-urls listen-metrics-urls`},
	{ignored, 5, 7, `cluster-active-size cluster-remove-delay cluster-sync-interval config force max-result-buffer max-retry-attempts
		peer-heartbeat-interval peer-election-timeout retry-interval snapshot v vv`},
}

func (p *parser) defineInert() {
	p.flags.String("logger", "zap", "")
	p.flags.String("tls-min-version", "TLS1.2", "")
	p.flags.Var(&urlList{exempt: "*"}, "cors", "")
	for _, each := range inert {
		if p.minor < each.since || p.minor > each.last {
			continue
		}
		for name := range strings.FieldsSeq(each.names) {
			each.define(p.flags, name)
		}
	}
}

func text(f *flag.FlagSet, name string)     { f.String(name, "", "") }
func natural(f *flag.FlagSet, name string)  { f.Uint(name, 0, "") }
func integer(f *flag.FlagSet, name string)  { f.Int(name, 0, "") }
func duration(f *flag.FlagSet, name string) { f.Duration(name, 0, "") }
func onOff(f *flag.FlagSet, name string)    { f.Bool(name, false, "") }
func urls(f *flag.FlagSet, name string)     { f.Var(&urlList{}, name, "") }

// word is a number of 32 bits, in any notation of Go's.
func word(f *flag.FlagSet, name string) {
	f.Func(name, "", func(text string) error {
		_, err := strconv.ParseUint(text, 0, 32)
		return err
	})
}

// ignored is a flag of etcd 2: it says nothing any more.
func ignored(f *flag.FlagSet, name string) { f.BoolFunc(name, "", func(string) error { return nil }) }
