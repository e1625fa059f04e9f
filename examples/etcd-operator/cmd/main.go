// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Command manager runs the controller of EtcdClusters.
package main

import (
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	etcdv1 "example.com/etcd-operator/api/v1"
	"example.com/etcd-operator/internal/controller"
)

var (
	scheme   = runtime.NewScheme()
	setupLog = ctrl.Log.WithName("setup")
)

func init() {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(etcdv1.AddToScheme(scheme))
}

func main() {
	var metricsAddr, probeAddr string
	var elect bool
	flag.StringVar(&metricsAddr, "metrics-bind-address", "0", "where metrics are served; 0: nowhere")
	flag.StringVar(&probeAddr, "health-probe-bind-address", ":8081", "where probes are answered")
	flag.BoolVar(&elect, "leader-elect", false, "have one of several act")
	opts := zap.Options{}
	opts.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&opts)))

	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: metricsAddr}, HealthProbeBindAddress: probeAddr,
		LeaderElection: elect, LeaderElectionID: "etcd-operator.example.com",
	})
	if err != nil {
		setupLog.Error(err, "unable to start manager")
		os.Exit(1)
	}
	reconciler := &controller.EtcdClusterReconciler{Client: mgr.GetClient(), Etcd: controller.Etcd{}, ShrinkFirst: os.Getenv("SHRINK_FIRST") != "", InMemory: os.Getenv("IN_MEMORY") != ""}
	if err := reconciler.SetupWith(mgr); err != nil {
		setupLog.Error(err, "unable to create controller", "controller", "EtcdCluster")
		os.Exit(1)
	}
	utilruntime.Must(mgr.AddHealthzCheck("healthz", healthz.Ping))
	utilruntime.Must(mgr.AddReadyzCheck("readyz", healthz.Ping))
	setupLog.Info("starting manager")
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		setupLog.Error(err, "problem running manager")
		os.Exit(1)
	}
}
