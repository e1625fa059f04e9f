// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/config"
	"github.com/ringproof/ringproof/faults"
	"github.com/ringproof/ringproof/internal/seam"
	"github.com/ringproof/ringproof/internal/trial"
	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/pki"
	"github.com/ringproof/ringproof/reference/store"
)

// Pods is the reference on Kubernetes: its controller, deployed as `kubectl apply -k
// config/default` does, and an EtcdRing, whose pods run its launcher.
type Pods struct {
	Self    string   // path of the harness's own binary
	Mutants []string // names

	plan ringproof.Plan
	api  kubeclient.Client
	ring kube.Names

	volume  func(node, path string) (string, error) // where the run has it
	backups int                                     // that were asked for

	withdrawn trial.Withdrawn
	edited    edited // what the EtcdRing was last asked to ask for

	dir    string                 // of what is told to those in pods, and by them; "": nothing is
	faults map[string]seam.Faults // by machine
	mu     sync.Mutex
}

var _ trial.Subject = (*Pods)(nil)
var _ trial.Controlled = (*Pods)(nil)
var _ trial.Reporting = (*Pods)(nil)
var _ trial.Asked = (*Pods)(nil)
var _ trial.Keeping = (*Pods)(nil)
var _ trial.Deletable = (*Pods)(nil)
var _ trial.Selecting = (*Pods)(nil)

// The ring of a plan, and the class of its volumes, which the cluster has.
const (
	podsNamespace = "rings"
	podsRing      = "r"
	podsClass     = "ringproof"
)

// Etcd is where a pod's etcd is found, and what it prints.
func (*Pods) Etcd() trial.Etcd {
	e := trial.UsualEtcd()
	e.Output = func(run string) string {
		return filepath.Join(run, trial.MemberDir, "volumes", kube.RunVolume, "etcd", "etcd.log")
	}
	return e
}

// Selector is of members' pods: what else is there may have volumes, too.
func (p *Pods) Selector() string {
	return labels.SelectorFromSet(kube.Names{Ring: podsRing}.Labels(kube.MemberPart)).String()
}

// Stop is what a kubelet does.
func (*Pods) Stop() trial.Stop { return trial.UsualStop() }

// Supports says what can't be asked of it, or done at its seams.
func (*Pods) Supports(s ringproof.Step) error {
	switch {
	case faults.AtSeam(s) && !slices.Contains(inPods, s.Fault.Kind):
		return fmt.Errorf("%s: the reference has no such seam in its pods (%w)", s.Fault.Kind, errors.ErrUnsupported)
	case s.Op != nil && s.Op.Kind == ringproof.OpRestart && (s.Op.Changes() || s.Op.Scope != "" && s.Op.Scope != "process"),
		s.Op != nil && s.Op.Kind == ringproof.OpRoll && s.Op.Scope != "" && s.Op.Scope != "process":
		return fmt.Errorf("%s: in a pod only etcd is restarted so far (%w)", s.Op.Kind, errors.ErrUnsupported)
	case s.Op != nil && !slices.Contains([]ringproof.OpKind{ringproof.OpScale, ringproof.OpUpgrade, ringproof.OpPeers, ringproof.OpEdit, ringproof.OpRestart, ringproof.OpRoll, ringproof.OpAsk, ringproof.OpSuspend, ringproof.OpResume, ringproof.OpSnapshot}, s.Op.Kind):
		return fmt.Errorf("%s: an EtcdRing can't be asked for it (%w)", s.Op.Kind, errors.ErrUnsupported)
	}
	return nil
}

// inPods are the faults at seams that pods have: those at a call or a decision.
var inPods = []ringproof.FaultKind{ringproof.FaultAgentCrash, ringproof.FaultStaleView, ringproof.FaultSkippedView}

// RunsInPods says why an EtcdRing can't be as the plan has it; nil: it can.
func RunsInPods(p ringproof.Plan) error {
	switch r := p.Ring; {
	case r.Security == "plain":
		return fmt.Errorf("a ring on Kubernetes whose clients talk plainly (%w)", errors.ErrUnsupported)
	case p.End != nil && p.Withdraws():
		return fmt.Errorf("end: the storage of a ring that is deleted and made anew (ring-deleted) stays (%w)", errors.ErrUnsupported)
	case r.Peers != "" && r.Size != 3:
		return fmt.Errorf("a ring on Kubernetes without launchers, as one is whose peers talk plainly, of other than three members (%w)", errors.ErrUnsupported)
	}
	return nil
}

// Seed deploys the controller and asks for the ring.
func (p *Pods) Seed(ctx context.Context, site trial.Site, _ trial.Run) error {
	p.plan, p.ring, p.volume = site.Plan, kube.Names{Namespace: podsNamespace, Ring: podsRing}, site.Volume
	if err := errors.Join(p.arm(site.Machines), p.open(site.Kubeconfig)); err != nil {
		return err
	}
	objects, err := p.deployed()
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := p.create(ctx, o); err != nil {
			return fmt.Errorf("creating %s %s: %w", o.GetObjectKind().GroupVersionKind().Kind, o.GetName(), err)
		}
	}
	asked := p.asked()
	if err := p.edited.begin(asked); err != nil {
		return err
	}
	return p.create(ctx, asked)
}

// open makes a client of the API server. What kinds there are it looks up when it needs to.
func (p *Pods) open(kubeconfig string) error {
	reached, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), v1alpha1.AddToScheme(known), apiextensionsv1.AddToScheme(known)); err != nil {
		return err
	}
	p.api, err = kubeclient.New(reached, kubeclient.Options{Scheme: known})
	return err
}

// deployed are the objects of config/default, the kinds first.
func (p *Pods) deployed() (all []kubeclient.Object, err error) {
	crds, err := config.CRDs()
	if err != nil {
		return nil, err
	}
	for _, c := range crds {
		all = append(all, c)
	}
	objects, err := config.Controller()
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if o.GetKind() == "Deployment" {
			if err := p.patient(o); err != nil {
				return nil, err
			}
		}
		all = append(all, o)
	}
	return append(all, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: podsNamespace}}), nil
}

// patient has the controller wait for as long as the plan says before it replaces who is
// away.
func (p *Pods) patient(deployment *unstructured.Unstructured) error {
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) == 0 {
		return fmt.Errorf("the controller's deployment has no container: %w", err)
	}
	c, ok := containers[0].(map[string]any)
	if !ok {
		return errors.New("the controller's container is no object")
	}
	c["args"] = []any{"controller", "--replace-after=" + p.plan.Ring.ReplaceAfter.Std().String()}
	return unstructured.SetNestedSlice(deployment.Object, containers, "spec", "template", "spec", "containers")
}

// asked is the EtcdRing. One whose peers speak plain text has no launchers, and to have them
// speak TLS is to give it some.
func (p *Pods) asked() *v1alpha1.EtcdRing {
	r := &v1alpha1.EtcdRing{ObjectMeta: metav1.ObjectMeta{Namespace: p.ring.Namespace, Name: p.ring.Ring}, Spec: v1alpha1.EtcdRingSpec{
		ClusterSize: int32(p.plan.Ring.Size), Version: strings.TrimPrefix(p.plan.Ring.Version, "v"),
		Storage: v1alpha1.Storage{StorageClassName: ptr.To(podsClass), Size: *resource.NewQuantity(p.plan.Ring.Volume, resource.BinarySI)}}}
	r.Spec.Storage.Retain = p.plan.Withdraws()
	if lifetime := p.plan.Ring.Certificates.Std(); lifetime > 0 {
		r.Spec.Certificates.Lifetime = &metav1.Duration{Duration: lifetime}
	}
	if p.plan.Ring.Peers == "plain" {
		r.Spec.Features.EtcdLauncher = ptr.To(false)
	}
	return r
}

// settling is how long a cluster that has just come up may refuse what it will take.
const settling = time.Minute

// create creates an object, once its kind is known and its namespace has what pods need.
func (p *Pods) create(ctx context.Context, o kubeclient.Object) (err error) {
	for began := time.Now(); time.Since(began) < settling; time.Sleep(200 * time.Millisecond) {
		if err = p.api.Create(ctx, o); err == nil || apierrors.IsAlreadyExists(err) || ctx.Err() != nil {
			return kubeclient.IgnoreAlreadyExists(err)
		}
		if apierrors.IsInvalid(err) {
			return err
		}
	}
	return err
}

// election is the Lease that says who of the controllers acts, and their Deployment.
const election = "ringadm-controller"

// Forget deletes the ring's records.
func (p *Pods) Forget(ctx context.Context) (gone []string, err error) {
	all, err := kube.Records{Live: p.api, Namespace: p.ring.Namespace, Ring: p.ring.Ring}.Objects(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		if err := p.api.Delete(ctx, o); err != nil {
			return gone, err
		}
		gone = append(gone, o.GetName())
	}
	return gone, nil
}

// Deployment keeps the controllers.
func (*Pods) Deployment() types.NamespacedName {
	return types.NamespacedName{Namespace: config.Namespace, Name: election}
}

// Controller is the pod whose controller acts. Who holds the Lease is told by the pod's host
// name, and what client-go adds to it.
func (p *Pods) Controller(ctx context.Context) (namespace, name string, err error) {
	lease, err := p.lease(ctx)
	if err != nil {
		return "", "", fmt.Errorf("which controller acts: %w", err)
	}
	name, _, told := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
	if !told || name == "" {
		return "", "", errors.New("no controller acts just now")
	}
	return config.Namespace, name, nil
}

func (p *Pods) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, p.api.Get(ctx, kubeclient.ObjectKey{Namespace: config.Namespace, Name: election}, lease)
}

// Status is that of the EtcdRing. The controller that acts shows by its Lease that it lives.
func (p *Pods) Status(ctx context.Context) (s ringproof.Status, err error) {
	r := &v1alpha1.EtcdRing{}
	if err := p.api.Get(ctx, kubeclient.ObjectKey{Namespace: p.ring.Namespace, Name: p.ring.Ring}, r); err != nil {
		return s, err
	}
	lease, err := p.lease(ctx)
	if kubeclient.IgnoreNotFound(err) != nil {
		return s, err
	}
	s = ringproof.Status{Current: r.Status.ObservedGeneration == r.Generation, Voters: int(r.Status.Voters), Object: r.ResourceVersion}
	for kind, says := range map[string]*string{v1alpha1.Available: &s.Available, v1alpha1.Degraded: &s.Degraded, v1alpha1.Halted: &s.Halted} { // order: each is its own
		if c := meta.FindStatusCondition(r.Status.Conditions, kind); c != nil {
			*says = string(c.Status)
		}
	}
	for _, m := range r.Status.Members {
		if id, err := strconv.ParseUint(m.ID, 16, 64); err == nil {
			s.Members = append(s.Members, ringproof.MemberID(id))
		}
	}
	slices.Sort(s.Members)
	if renewed := lease.Spec.RenewTime; renewed != nil {
		s.Alive = renewed.String()
	}
	return s, nil
}

// object names the EtcdRing.
func (p *Pods) object() *unstructured.Unstructured {
	r := &unstructured.Unstructured{}
	r.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("EtcdRing"))
	r.SetNamespace(p.ring.Namespace)
	r.SetName(p.ring.Ring)
	return r
}

// Empty drops the status of the EtcdRing, whatever the controller writes meanwhile.
func (p *Pods) Empty(ctx context.Context) (before string, err error) {
	return trial.EmptyStatus(ctx, p.api, p.object())
}

// Withdraw deletes the EtcdRing.
func (p *Pods) Withdraw(ctx context.Context, how string) (object string, err error) {
	return p.withdrawn.Withdraw(ctx, p.api, p.object(), how)
}

// Renew makes it anew.
func (p *Pods) Renew(ctx context.Context) error { return p.withdrawn.Renew(ctx, p.api) }

// Delete deletes the EtcdRing.
func (p *Pods) Delete(ctx context.Context) error {
	return kubeclient.IgnoreNotFound(p.api.Delete(ctx, p.object()))
}

// Left is what is in the ring's namespace, but for what each namespace has.
func (p *Pods) Left(ctx context.Context) ([]string, error) {
	return trial.Left(ctx, p.api, p.ring.Namespace, v1alpha1.GroupVersion.WithKind("EtcdRing"))
}

// Agent is nothing: kubelets keep the launchers running.
func (*Pods) Agent(trial.Machine) trial.Program { return trial.Program{} }

// arm sets the faults that begin with the run. The controller has made objects before that,
// and may be cut at each.
func (p *Pods) arm(on []trial.Machine) error {
	var errs []error
	for _, s := range p.plan.Steps {
		if !faults.AtSeam(s) || !s.Early() || s.After.Awaited() {
			continue
		}
		for _, m := range on {
			if s.Fault.Target == "" || s.Fault.Target == m.Name {
				errs = append(errs, p.Inject(s.At(), m.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// Inject writes what the pods on a machine read.
func (p *Pods) Inject(f ringproof.Seams, machine string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults == nil {
		p.faults = map[string]seam.Faults{}
	}
	p.faults[machine] = p.faults[machine].With(seam.Of(f, machine))
	at := filepath.Join(p.dir, machine)
	return errors.Join(os.MkdirAll(at, 0o755), seam.WriteFaults(filepath.Join(at, "faults.json"), p.faults[machine]))
}

// Begin has a journal kept: nothing else is done with a probe.
func (*Pods) Begin() ringproof.Fault { return seam.Probe() }

// Journal is what was done and decided in pods while the probe was set.
func (p *Pods) Journal() (*ringproof.Journal, error) {
	return seam.Read(filepath.Join(p.dir, "journal"))
}

// Image is what the image of ringadm runs: it, or where mutants are planted or seams are
// hit this program, a copy of which is kept in the directory.
func (p *Pods) Image(plan ringproof.Plan, ringadm, dir string) (string, error) {
	faulty := faults.AnyAtSeam(plan)
	if len(p.Mutants) == 0 && !faulty {
		return ringadm, nil
	}
	flags, err := p.flags(faulty)
	if err != nil {
		return "", err
	}
	if faulty {
		p.dir = filepath.Join(dir, trial.PodsDir)
		if err := os.MkdirAll(p.dir, 0o755); err != nil {
			return "", err
		}
	}
	to := filepath.Join(dir, "ringadm")
	if err := plant(p.Self, to, flags); err != nil {
		return "", fmt.Errorf("planting %s: %w", strings.Join(flags, " "), err)
	}
	return to, nil
}

// flags are what [Main] is given in a pod.
func (p *Pods) flags(faulty bool) (flags []string, err error) {
	for _, name := range p.Mutants {
		if _, err := LookupMutant(name); err != nil {
			return nil, err
		}
		flags = append(flags, "--mutant="+name)
	}
	if faulty {
		flags = append(flags, "--faults="+filepath.Join(trial.PodsOwn, "faults.json"), "--fired="+filepath.Join(trial.PodsAll, "fired-"), "--journal="+filepath.Join(trial.PodsAll, "journal"))
	}
	return flags, nil
}

// Ask edits the EtcdRing, as kubectl patch does: what its controller writes at the same moment
// stands in nobody's way.
func (p *Pods) Ask(ctx context.Context, op ringproof.Op, _ []string, _ trial.Run) (string, error) {
	if op.Params["object"] != "" {
		return trial.EditOther(ctx, p.api, v1alpha1.GroupVersion, p.ring.Namespace, op)
	}
	r := &v1alpha1.EtcdRing{}
	if err := p.withdrawn.Await(ctx, p.api, kubeclient.ObjectKey{Namespace: p.ring.Namespace, Name: p.ring.Ring}, r); err != nil {
		return "", err
	}
	var done string
	edit := kubeclient.MergeFrom(r.DeepCopy())
	switch op.Kind {
	case ringproof.OpScale:
		r.Spec.ClusterSize = int32(op.To)
		done = fmt.Sprintf("clusterSize: %d", op.To)
	case ringproof.OpUpgrade:
		r.Spec.Version = strings.TrimPrefix(op.Version, "v")
		done = "version: " + r.Spec.Version
	case ringproof.OpPeers:
		r.Spec.Features.EtcdLauncher = ptr.To(op.Peers == "tls")
		done = fmt.Sprintf("features.etcdLauncher: %t", *r.Spec.Features.EtcdLauncher)
	case ringproof.OpSuspend, ringproof.OpResume:
		r.Spec.Paused = op.Kind == ringproof.OpSuspend
		done = fmt.Sprintf("paused: %t", r.Spec.Paused)
	case ringproof.OpEdit:
		patch, err := op.MergePatch()
		if err != nil {
			return "", err
		}
		edit = kubeclient.RawPatch(types.MergePatchType, patch)
		done = op.Params["field"] + ": " + op.Params["value"]
	default:
		return "", fmt.Errorf("%s is no operation of an EtcdRing", op.Kind)
	}
	patch, err := edit.Data(r)
	if err != nil {
		return "", err
	}
	if err := p.api.Patch(ctx, r, edit); apierrors.IsConflict(err) {
		return "", fmt.Errorf("%w: %w", ringproof.ErrConflict, err)
	} else if err != nil {
		return "", trial.Refused(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if op.Rival { // of two at a time nobody knows which came last
		p.edited = edited{}
		return done, nil
	}
	return done, p.edited.merge(patch)
}

// Reset is no operation of a pod.
func (*Pods) Reset(context.Context, trial.Machine, string, trial.Run) (string, error) {
	return "", fmt.Errorf("an EtcdRing's disks are not reset by hand: %w", errors.ErrUnsupported)
}

// Hear turns a line of a launcher's or the controller's log into an event. Of whom it is
// about it names the slot.
func (p *Pods) Hear(line string) (ringproof.Event, bool) {
	var l host.Line
	if json.Unmarshal([]byte(line), &l) != nil {
		return ringproof.Event{}, false
	}
	return hear(l, p.plan.Ring)
}

// Credentials are of the ring's authority, as an administrator may have them issued: those of a
// member end in the time of the ring's.
func (p *Pods) Credentials(ctx context.Context) (secure *tls.Config, err error) {
	records := store.Marked{Unmarked: kube.Records{Live: p.api, Namespace: p.ring.Namespace, Ring: p.ring.Ring}}
	for began := time.Now(); time.Since(began) < settling && ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		if renews(p.plan) {
			if secure, err = (&renewed{store: records}).config(ctx); err == nil {
				return secure, nil
			}
			continue
		}
		var authority pki.Authority
		var pair pki.Pair
		if authority, pair, err = issue(ctx, records, time.Now()); err == nil {
			return pki.ClientTLS(authority.CertPEM(), pair)
		}
	}
	return nil, fmt.Errorf("the authority of %s: %w", p.ring.Ring, cmp.Or(err, ctx.Err()))
}
