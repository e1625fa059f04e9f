// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/ring"
)

// serve is the pods' containers, which run, and their members, which are ready.
func (c *cluster) serve(pods ...string) {
	c.t.Helper()
	for _, name := range pods {
		pod := c.pod(name)
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		require.NoError(c.t, c.Status().Update(c.t.Context(), pod))
	}
}

func (c *cluster) pod(name string) *corev1.Pod {
	c.t.Helper()
	pod := &corev1.Pod{}
	require.NoError(c.t, c.Get(c.t.Context(), client.ObjectKey{Namespace: "n", Name: name}, pod))
	return pod
}

// look is what the controller sees, with two members that are to restart for an edit.
func (c *cluster) look() (Seen, *automation) {
	c.t.Helper()
	x := c.reconciler.automation(newRing(3))
	x.observed = ring.Observed{Members: []ring.Member{{ID: 1, Machine: "r-0"}, {ID: 2, Machine: "r-1"}}}
	s, err := look(c.t.Context(), c.Client, Seen{Ring: newRing(3), Image: "ringadm:test"})
	require.NoError(c.t, err)
	x.ground = ground(s, epoch, x.ReplaceAfter)
	x.ground.Rolls = map[string]string{"r-0": "edited", "r-1": "edited"}
	return s, x
}

// TestARestartIsGranted: of the requests of the controller and of whoever drains a node the
// API server grants as many as leave the ring a quorum, whatever the controller saw.
func TestARestartIsGranted(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	c.reconcile()
	c.place("r-0", "r-1", "r-2")
	c.serve("r-0", "r-1")
	c.reconcile()

	s, x := c.look()
	waits, err := x.restart(t.Context(), s, 1)
	require.NoError(t, err)
	assert.Equal(t, "the disruption budget r lets no pod go: 2 are to be ready, and 2 are", waits)
	require.Nil(t, c.pod("r-0").DeletionTimestamp)

	c.serve("r-2")
	c.reconcile()
	before, x := c.look()
	waits, err = x.restart(t.Context(), before, 1)
	require.NoError(t, err)
	require.Empty(t, waits)
	require.NotNil(t, c.pod("r-0").DeletionTimestamp, "it is granted")
	assert.Equal(t, "kubectl -n n create --raw /api/v1/namespaces/n/pods/r-0/eviction -f eviction-r-0.yaml", eviction(c.pod("r-0"), "").String())

	waits, err = x.restart(t.Context(), before, 2)
	require.NoError(t, err, "what the API server refuses is no trouble")
	assert.Contains(t, waits, "violate the pod's disruption budget")
	require.Nil(t, c.pod("r-1").DeletionTimestamp)
}

// TestARestartIsOfThePodThatWasSeen: another has its name by now.
func TestARestartIsOfThePodThatWasSeen(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Create(t.Context(), newRing(3)))
	c.reconcile()
	c.place("r-0", "r-1", "r-2")
	c.serve("r-0", "r-1", "r-2")
	c.reconcile()
	before, _ := c.look()
	require.NoError(t, c.Delete(t.Context(), c.pod("r-0"), client.GracePeriodSeconds(0)))
	c.reconcile()
	_, x := c.look()
	_, err := x.restart(t.Context(), before, 1)
	assert.True(t, apierrors.IsConflict(err), "%v", err)
	assert.Nil(t, c.pod("r-0").DeletionTimestamp)
}
