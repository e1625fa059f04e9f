// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package config_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/pki"
)

// writers write through whatever members answer, each key once, and remember what was
// acknowledged.
type writers struct {
	etcd   *clientv3.Client
	cancel context.CancelFunc
	done   sync.WaitGroup

	lock    sync.Mutex
	acked   map[string]string
	refused int
	trouble error         // of the last that wasn't
	last    time.Time     // of the last acknowledged write
	longest time.Duration // between two of them, since the mark
}

const (
	writing   = 4                      // writers
	writePace = 100 * time.Millisecond // of each
)

// write starts them on a Service of the test's own: every node passes its port on to
// members that are ready.
func (x *trial) write() *writers {
	require.NoError(x, x.Create(x.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: x.names.Namespace, Name: x.names.Ring + "-outside"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: x.names.Labels(kube.MemberPart),
			Ports: []corev1.ServicePort{{Port: kube.ClientPort, TargetPort: intstr.FromInt32(kube.ClientPort)}}}}))
	ctx, cancel := context.WithCancel(x.Context())
	w := &writers{etcd: x.dial(), cancel: cancel, acked: map[string]string{}, last: time.Now()}
	for i := range writing {
		w.done.Go(func() { w.run(ctx, i) })
	}
	x.Cleanup(w.stop)
	x.until("the first writes", func() error {
		if len(w.all()) < writing {
			return fmt.Errorf("%d of them: %v", len(w.all()), w.said())
		}
		return nil
	})
	return w
}

// dial is a client with a member's client certificate.
func (x *trial) dial() *clientv3.Client {
	secret, service := &corev1.Secret{}, &corev1.Service{}
	require.NoError(x, x.Get(x.Context(), client.ObjectKey{Namespace: x.names.Namespace, Name: x.names.Certificates(0)}, secret))
	require.NoError(x, x.Get(x.Context(), client.ObjectKey{Namespace: x.names.Namespace, Name: x.names.Ring + "-outside"}, service))
	secure, err := pki.ClientTLS(secret.Data["ca.crt"], pki.Pair{CertPEM: secret.Data["client.crt"], KeyPEM: secret.Data["client.key"]})
	require.NoError(x, err)
	nodes, places := &corev1.NodeList{}, []string{}
	require.NoError(x, x.List(x.Context(), nodes))
	for _, n := range nodes.Items {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP && net.ParseIP(a.Address).To4() != nil {
				places = append(places, fmt.Sprintf("%s:%d", a.Address, service.Spec.Ports[0].NodePort))
			}
		}
	}
	// The members' certificates have the names of the ring's Service, which nobody here
	// resolves: each connection goes to the next node.
	var dialled atomic.Int64
	anywhere := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", places[int(dialled.Add(1))%len(places)])
	})
	var endpoints []string
	for _, name := range x.names.ClientAddresses() {
		endpoints = append(endpoints, fmt.Sprintf("https://%s:%d", name, kube.ClientPort))
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: secure, DialTimeout: 2 * time.Second, DialOptions: []grpc.DialOption{anywhere},
		DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 2 * time.Second, Logger: zap.NewNop()})
	require.NoError(x, err)
	x.Cleanup(func() { _ = etcd.Close() })
	return etcd
}

func (w *writers) run(ctx context.Context, writer int) {
	for n := 0; ctx.Err() == nil; n++ {
		key, value := fmt.Sprintf("writer/%d/%06d", writer, n), fmt.Sprint(n)
		asking, cancel := context.WithTimeout(ctx, time.Second)
		_, err := w.etcd.Put(asking, key, value)
		cancel()
		w.note(key, value, err)
		time.Sleep(writePace)
	}
}

// note remembers an answer. A write that none came for may be there or not.
func (w *writers) note(key, value string, err error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err != nil {
		w.refused++
		w.trouble = err
		return
	}
	now := time.Now()
	w.longest, w.last = max(w.longest, now.Sub(w.last)), now
	w.acked[key] = value
}

// mark begins to measure gaps.
func (w *writers) mark() {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.longest = 0
}

// gap is the longest time between two acknowledged writes since the mark.
func (w *writers) gap() time.Duration {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.longest
}

func (w *writers) all() map[string]string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return maps.Clone(w.acked)
}

func (w *writers) said() error {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.trouble
}

func (w *writers) stop() {
	w.cancel()
	w.done.Wait()
}

// allThere wants every acknowledged write to be in the ring.
func (w *writers) allThere(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	answer, err := w.etcd.Get(ctx, "writer/", clientv3.WithPrefix())
	require.NoError(t, err)
	found := map[string]string{}
	for _, kv := range answer.Kvs {
		found[string(kv.Key)] = string(kv.Value)
	}
	acked, lost := w.all(), 0
	for key, value := range acked {
		if found[key] != value {
			lost++
		}
	}
	assert.Zero(t, lost, "acknowledged writes are lost")
	t.Logf("%d writes were acknowledged, %d were not", len(acked), w.refused)
	members, err := w.etcd.MemberList(ctx)
	require.NoError(t, err)
	assert.Len(t, members.Members, 3)
	for _, m := range members.Members {
		assert.False(t, m.IsLearner, m.Name)
	}
}
