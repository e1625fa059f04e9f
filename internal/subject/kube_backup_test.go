// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ringproof/ringproof/reference/kube"
)

// TestABackupThatNobodyWaitsForIsTakenAway: of a job that has not ended in time nothing is left, to
// write later beside the next.
func TestABackupThatNobodyWaitsForIsTakenAway(t *testing.T) {
	made := 0
	api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c kubeclient.WithWatch, o kubeclient.Object, with ...kubeclient.CreateOption) error {
			made++
			return c.Create(ctx, o, with...)
		},
		Delete: func(ctx context.Context, c kubeclient.WithWatch, o kubeclient.Object, with ...kubeclient.DeleteOption) error {
			if err := ctx.Err(); err != nil {
				return err // as the API server never hears of it
			}
			return c.Delete(ctx, o, with...)
		},
	}).Build()
	p := &Pods{api: api, ring: kube.Names{Namespace: "rings", Ring: "r"}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := p.Snapshot(ctx, filepath.Join(t.TempDir(), "b.db"), nil)
	require.ErrorContains(t, err, "job r-backup-1 has not ended")
	assert.Equal(t, 2, made)
	jobs, claims := &batchv1.JobList{}, &corev1.PersistentVolumeClaimList{}
	require.NoError(t, errors.Join(api.List(t.Context(), jobs), api.List(t.Context(), claims)))
	assert.Empty(t, jobs.Items)
	assert.Empty(t, claims.Items)
}
