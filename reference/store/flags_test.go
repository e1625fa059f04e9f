// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringproof/ringproof/reference/ring"
)

func TestFlagsOfAMachine(t *testing.T) {
	spec := Spec{Nodes: 3, Version: "v3.5.21", Security: "tls"}
	spec.SetFlag("", "quota-backend-bytes", "16777216")
	spec.SetFlag("m2", "quota-backend-bytes", "33554432")
	spec.SetFlag("m2", "max-learners", "2")
	spec.SetVersion("m2", "v3.6.0")
	require.NoError(t, spec.Validate())
	assert.Equal(t, []string{"quota-backend-bytes=16777216"}, spec.FlagsOf("m1"))
	assert.Equal(t, []string{"max-learners=2", "quota-backend-bytes=33554432"}, spec.FlagsOf("m2"))
	assert.EqualValues(t, "v3.5.21", spec.VersionOf("m1"))
	assert.EqualValues(t, "v3.6.0", spec.VersionOf("m2"))

	spec.SetVersion("m2", "")
	spec.SetFlag("m2", "max-learners", "")
	spec.SetFlag("m2", "quota-backend-bytes", "")
	assert.Empty(t, spec.Machines)
}

func TestFlagsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		set  func(*Spec)
		says string
	}{
		{func(s *Spec) { s.SetFlag("", "initial-cluster-state", "new") }, "ringadm sets it itself"},
		{func(s *Spec) { s.SetFlag("m1", "force-new-cluster", "true") }, "ringadm sets it itself"},
		{func(s *Spec) { s.SetFlag("", "peer-trusted-ca-file", "x") }, "ringadm sets it itself"},
		{func(s *Spec) { s.SetFlag("", "--quota-backend-bytes", "1") }, "without its dashes"},
		{func(s *Spec) { s.SetFlag("m1", "metrics", "a\nb") }, "line break"},
		{func(s *Spec) { s.SetVersion("m1", "3.6") }, "write it as"},
		{func(s *Spec) { s.SetVersion("m1", "v3.7.3") }, "more than one minor"},
		{func(s *Spec) { s.SetVersion("no such/name", "v3.6.1") }, "refused"},
	} {
		spec := Spec{Nodes: 3, Version: "v3.5.21", Security: "tls"}
		c.set(&spec)
		assert.ErrorContains(t, spec.Validate(), c.says)
	}
}

// TestAsk: an upgrade remembers what runs until then, and is refused where etcd can't go.
func TestAsk(t *testing.T) {
	s := Spec{Nodes: 3, Security: ring.TLS, Version: "v3.5.35", Machines: map[string]Own{"m2": {Version: "v3.6.11"}}}
	assert.EqualValues(t, "v3.5.35", s.Before("m1"))
	require.NoError(t, s.Ask("v3.6.16"))
	require.NoError(t, s.Validate())
	assert.EqualValues(t, "v3.6.16", s.VersionOf("m1"))
	assert.EqualValues(t, "v3.5.35", s.Before("m1"))
	assert.EqualValues(t, "v3.6.11", s.Before("m2"))
	assert.EqualValues(t, "v3.5.35", s.Wanted().From)

	asked := s
	require.NoError(t, s.Ask("v3.6.16"))
	assert.Equal(t, asked, s, "what is asked for already")
	assert.ErrorContains(t, s.Ask("v3.5.31"), "isn't taken back")
	assert.ErrorContains(t, s.Ask("v3.8.0"), "a minor is left out")
	assert.ErrorContains(t, s.Ask("3.6"), "write it as v3.6.16")
	assert.Equal(t, asked, s, "what is refused changes nothing")

	require.NoError(t, s.Ask("v3.5.35"))
	assert.EqualValues(t, "v3.5.35", s.Version, "it is taken back")
	assert.EqualValues(t, "v3.5.35", s.From, "and who was upgraded is known to have been asked to")

	require.NoError(t, s.Ask("v3.5.31"), "nobody may ever have run v3.5.35")
	assert.EqualValues(t, "v3.5.31", s.Before("m1"))
}

// TestAskOwn: a machine may have the next minor for itself, and not one before what the
// ring runs: its etcd would not start. One that stays behind as the ring goes on does.
func TestAskOwn(t *testing.T) {
	for _, c := range []struct {
		before, own, asked ring.Version
		says               string
	}{
		{"v3.6.16", "", "v3.5.35", "m2: version v3.5.35 refused: it is of an older minor than v3.6.16, which the ring runs or goes to"},
		{"v3.6.16", "v3.7.3", "v3.5.35", "is of an older minor than v3.6.16"},
		{"v3.6.16", "v3.5.35", "v3.5.31", "is of an older minor than v3.6.16"},
		{"v3.6.16", "v3.5.35", "v3.5.35", ""},
		{"v3.6.16", "", "v3.6.11", ""},
		{"v3.6.16", "v3.7.3", "v3.6.16", ""},
		{"v3.5.35", "", "v3.6.16", ""},
		{"v3.5.35", "v3.6.16", "", ""},
	} {
		before := Spec{Nodes: 3, Security: ring.TLS, Version: c.before}
		before.SetVersion("m2", c.own)
		after := before
		after.SetVersion("m2", c.asked)
		if err := after.CheckOwn(before); c.says == "" {
			assert.NoError(t, err, "%+v", c)
		} else {
			assert.ErrorContains(t, err, c.says)
		}
	}
	before := Spec{Nodes: 3, Security: ring.TLS, Version: "v3.5.35"}
	after := before
	after.SetVersion("m2", "v3.5.35")
	require.NoError(t, after.Ask("v3.6.16"))
	assert.NoError(t, after.CheckOwn(before), "it is left out of an upgrade")
}
