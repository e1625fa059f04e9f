// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package upstream holds the model of the StatefulSet controller against that of
// Kubernetes 1.36.3 itself. It is a module of its own, so that whoever uses
// ringproof needn't have Kubernetes.
package upstream
