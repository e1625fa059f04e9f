// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package fidelity_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ringproof/ringproof/config"
	"github.com/ringproof/ringproof/internal/kind"
	"github.com/ringproof/ringproof/sim/kube"
)

// TestKind plays every script on a real cluster. With -rewrite it records what
// that says; read the difference, twice.
func TestKind(t *testing.T) {
	if os.Getenv("RINGPROOF_KIND") == "" {
		t.Skip("SKIPPED: a cluster in Docker takes minutes: make test-kind")
	}
	cluster := up(t, faulty)
	asked := administrator(t, cluster.Kubeconfig)
	install(t, asked)
	t.Run("api", func(t *testing.T) {
		scripts(t, "api", func(t *testing.T, path string) { play(t, path, newReal(t, asked, path)) })
	})
	file := filepath.Join(t.TempDir(), "actor.tar")
	_, err := actorImage(buildActor(t)).Write(file)
	require.NoError(t, err)
	require.NoError(t, cluster.Load(file))
	names, err := cluster.Workers()
	require.NoError(t, err)
	t.Run("cluster", func(t *testing.T) {
		playAll(t, func(t *testing.T, path string) api { return onKind{newReal(t, asked, path), cluster, names} })
	})
}

// up brings up a cluster for the test.
func up(t *testing.T, workers int) *kind.Cluster {
	t.Helper()
	cluster, err := kind.Up(t.Context(), kind.Options{Dir: t.TempDir(), Workers: workers, Log: func(line string) { t.Log(line) }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	return cluster
}

// administrator is a cluster's, with all kinds that scripts know.
func administrator(t *testing.T, kubeconfig string) client.WithWatch {
	t.Helper()
	log.SetLogger(logr.Discard()) // else controller-runtime complains that nobody did
	reached, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	reached.QPS, reached.Burst = 100, 200 // scripts look often, and many at once
	known := scheme(t)
	require.NoError(t, apiextensionsv1.AddToScheme(known))
	asked, err := client.NewWithWatch(reached, client.Options{Scheme: known})
	require.NoError(t, err)
	return asked
}

// onKind is a cluster whose nodes are containers.
type onKind struct {
	*real
	cluster *kind.Cluster
	names   []string // of the workers
}

func (k onKind) Called(worker int) string { return k.names[worker-1] }
func (k onKind) Class() string            { return "standard" }

func (k onKind) Do(ctx context.Context, worker int, deed string) error {
	name := k.Called(worker)
	switch deed {
	case kubeletStops:
		return k.cluster.Run(name, "systemctl", "stop", "kubelet")
	case kubeletGoes:
		return k.cluster.Run(name, "systemctl", "start", "kubelet")
	case powerGoes:
		return exec.CommandContext(ctx, "docker", "kill", name).Run()
	case powerComes:
		return exec.CommandContext(ctx, "docker", "start", name).Run()
	}
	return fmt.Errorf("a node can't suffer %s", deed)
}

// install gives a cluster the reference's own kinds.
func install(t *testing.T, c client.Client) {
	t.Helper()
	crds, err := config.CRDs()
	require.NoError(t, err)
	for _, crd := range crds {
		require.NoError(t, c.Create(t.Context(), crd))
		require.Eventually(t, func() bool {
			err := c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd)
			return err == nil && slices.ContainsFunc(crd.Status.Conditions, func(x apiextensionsv1.CustomResourceDefinitionCondition) bool {
				return x.Type == apiextensionsv1.Established && x.Status == apiextensionsv1.ConditionTrue
			})
		}, settled, 50*time.Millisecond, "%s isn't established", crd.Name)
	}
}

// real is a real API server as a script asks it, in a namespace of the script's own.
type real struct {
	client.WithWatch
	ctx       context.Context
	namespace string
}

// settled is how long a new namespace may take until pods can be made in it.
const settled = time.Minute

func newReal(t *testing.T, c client.WithWatch, path string) *real {
	t.Helper()
	r := &real{c, t.Context(), "fidelity-" + filepath.Base(path)}
	require.NoError(t, c.Create(r.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}))
	require.Eventually(t, func() bool {
		return c.Get(r.ctx, client.ObjectKey{Namespace: r.namespace, Name: "default"}, &corev1.ServiceAccount{}) == nil
	}, settled, 50*time.Millisecond, "no service account in %s", r.namespace)
	t.Cleanup(func() { // nodes have room for so many pods
		require.NoError(t, c.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace(r.namespace), client.GracePeriodSeconds(0)))
	})
	return r
}

func (r *real) Namespace() string          { return r.namespace }
func (r *real) Elapse(pause time.Duration) { time.Sleep(pause) }

// watched are the kinds whose objects the cluster's own controllers write.
var watched = []client.ObjectList{&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &appsv1.StatefulSetList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &policyv1.PodDisruptionBudgetList{}}

// Settle waits until nothing was written for a while.
func (r *real) Settle() error {
	last, since := "", time.Now()
	for end := time.Now().Add(settled); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		now, err := r.versions()
		if err != nil {
			return err
		}
		if now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > quiet {
			return nil
		}
	}
	return fmt.Errorf("the controllers still write after %s", settled)
}

func (r *real) versions() (string, error) {
	var all []string
	for _, kind := range watched {
		list := kind.DeepCopyObject().(client.ObjectList)
		if err := r.WithWatch.List(r.ctx, list, client.InNamespace(r.namespace)); err != nil {
			return "", err
		}
		found, err := meta.ExtractList(list)
		if err != nil {
			return "", err
		}
		for _, o := range found {
			all = append(all, string(o.(kube.Object).GetUID())+"/"+o.(kube.Object).GetResourceVersion())
		}
	}
	return strings.Join(all, " "), nil
}

func (r *real) listOf(gvk schema.GroupVersionKind) (client.ObjectList, error) {
	o, err := r.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	return o.(client.ObjectList), nil
}

// quiet is how long a watch may be silent before nothing more is awaited of it.
const quiet = 3 * time.Second

func (r *real) Since(gvk schema.GroupVersionKind, version string, n int) (all []kube.Event, err error) {
	list, err := r.listOf(gvk)
	if err != nil {
		return nil, err
	}
	w, err := r.Watch(r.ctx, list, &client.ListOptions{Namespace: r.namespace, Raw: &metav1.ListOptions{ResourceVersion: version}})
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	for len(all) < n {
		select {
		case e, open := <-w.ResultChan():
			switch {
			case !open:
				return all, fmt.Errorf("the watch ended")
			case e.Type == watch.Error:
				return all, apierrors.FromObject(e.Object)
			case !strings.HasPrefix(e.Object.(kube.Object).GetName(), "kube-"): // what every namespace has
				all = append(all, kube.Event{Type: e.Type, Object: e.Object.(kube.Object)})
			}
		case <-time.After(quiet):
			return all, nil
		}
	}
	return all, nil
}
