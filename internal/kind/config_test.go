// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kind

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

func TestPlainClusterIsKindsOwn(t *testing.T) {
	config, err := Options{Workers: 1}.prepare()
	require.NoError(t, err)
	assert.Equal(t, &v1alpha4.Cluster{Nodes: []v1alpha4.Node{{Role: v1alpha4.ControlPlaneRole}, {Role: v1alpha4.WorkerRole}}}, config)
}

func TestWorkersHaveDisksOfTheirOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "disks")
	config, err := Options{Workers: 2, Disks: dir}.prepare()
	require.NoError(t, err)
	require.Len(t, config.Nodes, 3)
	assert.Empty(t, config.Nodes[0].ExtraMounts)
	for i, name := range []string{"m1", "m2"} {
		assert.Equal(t, []v1alpha4.Mount{{HostPath: filepath.Join(dir, name), ContainerPath: VolumesAt}}, config.Nodes[i+1].ExtraMounts)
		assert.DirExists(t, filepath.Join(dir, name))
	}
}

func TestFlagsAreAddedToKindsOwn(t *testing.T) {
	dir := t.TempDir()
	config, err := Options{Grace: 12 * time.Second, Audit: dir}.prepare()
	require.NoError(t, err)
	require.Len(t, config.KubeadmConfigPatchesJSON6902, 1)
	patch := config.KubeadmConfigPatchesJSON6902[0]
	assert.Equal(t, "ClusterConfiguration", patch.Kind)
	assert.Contains(t, patch.Patch, `{"op":"add","path":"/controllerManager/extraArgs/-","value":{"name":"node-monitor-grace-period","value":"12s"}}`)
	assert.Contains(t, patch.Patch, `"name":"audit-log-path"`)
	assert.FileExists(t, filepath.Join(dir, "policy.yaml"))
	assert.Equal(t, []v1alpha4.Mount{{HostPath: dir, ContainerPath: auditAt}}, config.Nodes[0].ExtraMounts)
}
