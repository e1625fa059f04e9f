// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package kind

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

// StorageClass is the class of volumes whose files stay when the volumes go. A cluster
// with Disks has it.
const StorageClass = "ringproof"

// storage is that class. The provisioner of kind's node images makes its volumes: with
// the policy Delete it would remove the files, and with them what a member's log says.
const storage = `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: ` + StorageClass + `}
provisioner: rancher.io/local-path
volumeBindingMode: WaitForFirstConsumer
reclaimPolicy: Retain
`

// policy has the API server log what the accounts of namespaces ask for, but those of
// Kubernetes itself.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, userGroups: ["system:serviceaccounts:kube-system", "system:serviceaccounts:local-path-storage"]}
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
`

// Where nodes have what they share with this machine.
const (
	VolumesAt = "/var/local-path-provisioner" // in a node
	ToolsAt   = "/ringproof"                  // there too
	auditAt   = "/var/log/ringproof"          // in the control plane's node, and in the API server's pod
)

// prepare returns what is asked of kind, and makes the folders that the nodes mount.
func (o Options) prepare() (*v1alpha4.Cluster, error) {
	front := v1alpha4.Node{Role: v1alpha4.ControlPlaneRole}
	if o.Audit != "" {
		if err := os.MkdirAll(o.Audit, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(o.Audit, "policy.yaml"), []byte(policy), 0o644); err != nil {
			return nil, err
		}
		front.ExtraMounts = []v1alpha4.Mount{{HostPath: o.Audit, ContainerPath: auditAt}}
	}
	var tools []v1alpha4.Mount
	if o.Tools != "" {
		tools = []v1alpha4.Mount{{HostPath: o.Tools, ContainerPath: ToolsAt, Readonly: true}}
	}
	front.ExtraMounts = append(front.ExtraMounts, tools...)
	config := &v1alpha4.Cluster{Nodes: []v1alpha4.Node{front}, KubeadmConfigPatchesJSON6902: o.patches()}
	for i := range o.Workers {
		worker := v1alpha4.Node{Role: v1alpha4.WorkerRole, ExtraMounts: slices.Clone(tools)}
		if o.Disks != "" {
			disk := filepath.Join(o.Disks, fmt.Sprintf("m%d", i+1))
			if err := os.MkdirAll(disk, 0o755); err != nil {
				return nil, err
			}
			worker.ExtraMounts = append(worker.ExtraMounts, v1alpha4.Mount{HostPath: disk, ContainerPath: VolumesAt})
		}
		config.Nodes = append(config.Nodes, worker)
	}
	return config, nil
}

// patch is one step of RFC 6902.
type patch struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// argument adds a flag to those that kind gives a part of the control plane.
func argument(part, name, value string) patch {
	return patch{"add", "/" + part + "/extraArgs/-", map[string]string{"name": name, "value": value}}
}

// patches are what of kubeadm's configuration isn't kind's own. Since Kubernetes 1.36
// kind writes it in this version, where flags are a list.
func (o Options) patches() []v1alpha4.PatchJSON6902 {
	var all []patch
	if o.Grace > 0 {
		all = append(all, argument("controllerManager", "node-monitor-grace-period", o.Grace.String()))
	}
	if o.Audit != "" {
		mounted := map[string]any{"name": "ringproof-audit", "hostPath": auditAt, "mountPath": auditAt, "pathType": "Directory"}
		all = append(all,
			argument("apiServer", "audit-policy-file", auditAt+"/policy.yaml"),
			argument("apiServer", "audit-log-path", auditAt+"/audit.log"),
			patch{"add", "/apiServer/extraVolumes", []any{mounted}})
	}
	if all == nil {
		return nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings in maps always have their JSON
	}
	return []v1alpha4.PatchJSON6902{{Group: "kubeadm.k8s.io", Version: "v1beta4", Kind: "ClusterConfiguration", Patch: string(text)}}
}
