// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	runtimecontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/controller"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/kube"
)

// controllerFlags are the flags of ringadm controller.
type controllerFlags struct {
	image, namespace, leaseNamespace, metrics, health string
	replaceAfter                                      time.Duration
	elect                                             bool
}

func controllerCommand(s Seams) *cobra.Command {
	var f controllerFlags
	c := &cobra.Command{
		Use:   "controller",
		Short: "make running rings of EtcdRings on Kubernetes",
		Long: `controller makes a running ring of each EtcdRing: it keeps the pods, bootstraps the ring,
and then adds, removes and replaces members one at a time until the ring is what is
asked for. It replaces exactly the member whose volume or node is lost.

Any number of controllers may run; one of them is elected and acts. What one does to a
ring's members is fenced by the ring itself.

The log is JSON, a line for each thing that happened, on standard output. Each change
is logged as the command that does it by hand.`,
		Args: exactly(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error { return runController(c.Context(), c.OutOrStdout(), f, s) },
	}
	c.Flags().StringVar(&f.image, "image", "", "ringadm's image, which pods take ringadm from; empty: that of this pod's container \"controller\", else "+devImage)
	c.Flags().StringVar(&f.namespace, "namespace", "", "the only namespace whose rings are looked after; empty: all")
	c.Flags().DurationVar(&f.replaceAfter, "replace-after", 10*time.Minute, "how long the nodes that reach a volume may not be ready before its member is replaced")
	c.Flags().BoolVar(&f.elect, "elect", true, "act only while this controller is the elected one")
	c.Flags().StringVar(&f.leaseNamespace, "elect-namespace", "", "namespace of the election's Lease; empty: that of this pod")
	c.Flags().StringVar(&f.metrics, "metrics-address", ":8080", "address of the metrics; 0: none")
	c.Flags().StringVar(&f.health, "health-address", ":8081", "address of /healthz and /readyz; 0: none")
	return c
}

func runController(ctx context.Context, out io.Writer, f controllerFlags, s Seams) error {
	if f.replaceAfter <= 0 {
		return usageError{fmt.Errorf("--replace-after %s: choose a positive time", f.replaceAfter)}
	}
	reached, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("the API server's address and credentials: %w; run in a pod, or set KUBECONFIG", err)
	}
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), v1alpha1.AddToScheme(known)); err != nil {
		return err
	}
	if f.image, err = f.ownImage(ctx, reached, known); err != nil {
		return err
	}
	m, err := ctrl.NewManager(reached, f.options(known))
	if err != nil {
		return err
	}
	if err := errors.Join(m.AddHealthzCheck("ping", healthz.Ping), m.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return err
	}
	name, _ := os.Hostname()
	h := host.NewReal(name, os.TempDir(), os.TempDir(), out)
	acting, resign := context.WithCancelCause(ctx)
	defer resign(nil)
	if err := f.watch(m, h, s, resign); err != nil {
		return err
	}
	if err := m.Start(acting); err != nil || ctx.Err() != nil {
		return err
	}
	_ = h.Sleep(ctx, standBack) // whoever is restarted first would lead again
	return context.Cause(acting)
}

// standBack is how long who has resigned leaves the Lease to others: as long as one that is
// not given up lives (controller-runtime's LeaseDuration).
const standBack = 15 * time.Second

const devImage = "ringadm:dev"

// ownImage is the image that pods of rings take ringadm from: that of the pod which this
// controller runs in, so that both are of one release.
func (f controllerFlags) ownImage(ctx context.Context, reached *rest.Config, known *runtime.Scheme) (string, error) {
	name, namespace := os.Getenv("POD_NAME"), os.Getenv("POD_NAMESPACE")
	if f.image != "" || name == "" || namespace == "" {
		return cmp.Or(f.image, devImage), nil
	}
	api, err := client.New(reached, client.Options{Scheme: known})
	if err != nil {
		return "", err
	}
	own := &corev1.Pod{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, own); err != nil {
		return "", fmt.Errorf("which image this controller is of: %w; say it with --image", err)
	}
	for _, c := range own.Spec.Containers {
		if c.Name == "controller" {
			return c.Image, nil
		}
	}
	return "", fmt.Errorf("the pod %s/%s has no container \"controller\": say ringadm's image with --image", namespace, name)
}

// options have Secrets and ConfigMaps read from the API server itself: a cache would
// hold every Secret of the cluster.
func (f controllerFlags) options(known *runtime.Scheme) ctrl.Options {
	o := ctrl.Options{Scheme: known,
		LeaderElection: f.elect, LeaderElectionID: "ringadm-controller", LeaderElectionNamespace: cmp.Or(f.leaseNamespace, os.Getenv("POD_NAMESPACE")), LeaderElectionReleaseOnCancel: true,
		Metrics: server.Options{BindAddress: f.metrics}, HealthProbeBindAddress: f.health,
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}}}
	if f.namespace != "" {
		o.Cache.DefaultNamespaces = map[string]cache.Config{f.namespace: {}}
	}
	return o
}

// watch has rings looked at when something of theirs changes.
func (f controllerFlags) watch(m ctrl.Manager, h host.Host, s Seams, resign func(why error)) error {
	if s.Host != nil {
		h = s.Host(h)
	}
	b, api := brain(h, s), m.GetClient()
	if s.Kube != nil {
		api = s.Kube(h, api)
	}
	counted, err := controller.NewMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	r := controller.New(controller.Config{Client: api, Live: m.GetAPIReader(), Host: h, Image: f.image, ReplaceAfter: f.replaceAfter,
		Events: m.GetEventRecorder("ringadm-controller"), Metrics: counted, Next: b.Next, Do: b.Do, Resign: resign})
	return builder.ControllerManagedBy(m).
		For(&v1alpha1.EtcdRing{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.StatefulSet{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ringOf)).
		WithOptions(runtimecontroller.Options{MaxConcurrentReconciles: ringsAtOnce}).
		Complete(r)
}

// ringsAtOnce is how many rings are looked after at the same time, so that those that answer
// nobody keep none waiting.
const ringsAtOnce = 16

// ringOf is the ring that an object is of.
func ringOf(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[kube.RingLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}
