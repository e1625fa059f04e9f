// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	runtimereconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/host"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/reconcile"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// How soon a ring is looked at again. Who has somebody to wait for counts five seconds at
// most between two looks, and the lead lives as long.
const (
	pace     = time.Second
	restPace = 2 * time.Second
)

// Config is what the controller of all rings needs.
type Config struct {
	Client client.Client // reads may be of a cache, and lag
	Live   client.Reader // reads are the API server's own
	Host   host.Host
	Image  string // ringadm's
	// ReplaceAfter is how long the nodes of a volume may not be ready before its slot gets
	// another.
	ReplaceAfter time.Duration
	Events       events.EventRecorder // of the rings' objects; nil: none are written
	Metrics      *Metrics             // nil: none are kept
	Next         func(ring.Spec, ring.Observed) ring.Decision
	Do           func(context.Context, *admin.Ring, ring.Action, admin.Fence) error
	// Resign has another process act, which may reach what this one can't; nil: there is none.
	Resign func(why error)
}

// Reconciler reconciles EtcdRings: each by one step at a time, and several at once. A ring
// whose members answer nobody is waited for a second a member, and the lead of another lives
// for five.
type Reconciler struct {
	Config

	mu    sync.Mutex
	rings map[types.NamespacedName]*automation
	heard time.Duration // when any was read last, by the monotonic clock
}

// New returns a reconciler that knows of no ring yet.
func New(c Config) *Reconciler {
	return &Reconciler{Config: c, rings: map[types.NamespacedName]*automation{}}
}

// Reconcile takes one ring one step on.
func (r *Reconciler) Reconcile(ctx context.Context, q runtimereconcile.Request) (runtimereconcile.Result, error) {
	asked := &v1alpha1.EtcdRing{}
	if err := r.Client.Get(ctx, q.NamespacedName, asked); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(q.NamespacedName)
			return runtimereconcile.Result{}, nil
		}
		return runtimereconcile.Result{}, err
	}
	if asked.DeletionTimestamp != nil {
		return r.end(ctx, asked)
	}
	if err := r.settle(ctx, asked); err != nil {
		return runtimereconcile.Result{}, err
	}
	x := r.automation(asked)
	o := x.step(ctx, asked)
	r.listen(x, o)
	if o.trouble != nil {
		x.log.Say(host.EventTrouble, fmt.Sprintf("%s: %v", q, o.trouble))
	}
	if o.elsewhere {
		return runtimereconcile.Result{RequeueAfter: pace}, nil
	}
	if err := r.tell(ctx, asked, o); err != nil && !apierrors.IsConflict(err) {
		return runtimereconcile.Result{}, err
	}
	if o.steady() {
		return runtimereconcile.Result{RequeueAfter: restPace}, nil
	}
	return runtimereconcile.Result{RequeueAfter: pace}, nil
}

func (r *Reconciler) forget(name types.NamespacedName) {
	r.Metrics.forget(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.rings[name]; x != nil {
		x.ring.Close()
		delete(r.rings, name)
	}
}

// automation is what is kept of one ring from step to step. All of it can be lost: it
// is read again, and counted anew.
type automation struct {
	*Config
	of       types.UID // the EtcdRing
	host     host.Host
	told     *eventful
	log      *host.Recorder
	records  store.Marked
	marked   bool // the place of the records is known to be one
	signers  *signers
	stage    stage // of the authorities, when the slots' Secrets were looked at last
	identity *store.Identity
	formed   bool
	made     struct { // what pods were to be made with last, by the records
		n    int
		last store.Made
	}
	ring       *admin.Ring
	lease      admin.Lease
	reconciler *reconcile.Reconciler
	members    []string // client URLs of the members last listed
	voters     int      // how many of them vote
	certified  certified
	restored   time.Time // when the records were looked at last
	refusals   refusals
	last       *appsv1.StatefulSet // as it was when it was there
	quiet      quiet
	watched    admin.Observer // of a ring without launchers
	deaf       bool           // it serves, and can't be read from here
	deafened   time.Duration  // since when, by the monotonic clock

	ground   Ground        // of the step that is being taken
	seen     Seen          // in it
	observed ring.Observed // what was decided on last
}

// automation is what is kept of the ring. One that was made anew under its name has objects of
// its own, whatever was seen of those before.
func (r *Reconciler) automation(asked *v1alpha1.EtcdRing) *automation {
	name := client.ObjectKeyFromObject(asked)
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.rings[name]; x != nil && x.of == asked.UID {
		x.told.ring = asked
		return x
	} else if x != nil {
		x.ring.Close()
	}
	told := &eventful{Host: r.Host, to: r.Events, metrics: r.Metrics, ring: asked}
	x := &automation{Config: &r.Config, of: asked.UID, refusals: refusals{}, host: r.Host, told: told, log: &host.Recorder{Host: told}, ring: &admin.Ring{Host: r.Host},
		records: store.Marked{Unmarked: kube.Records{Live: r.Live, Writer: r.Client, Namespace: name.Namespace, Ring: name.Name}}}
	x.reconciler = &reconcile.Reconciler{Ring: x.ring, Log: x.log, Next: x.next, Do: r.Do,
		Lead: admin.Lead{Holder: "controller", Nonce: r.Host.Nonce()}}
	r.rings[name] = x
	return x
}

// next is the ring's own, told of the slots.
func (x *automation) next(spec ring.Spec, o ring.Observed) ring.Decision {
	x.observed = x.ground.tell(o)
	return x.unreached(x.Next(spec, x.observed))
}

// outcome is what came of one step.
type outcome struct {
	seen     Seen
	waits    []string // of slots
	wait     string   // why nothing is done now
	halt     string   // why only a person should go on
	commands []string // what that person should consider
	refused  string   // what of that which is asked for is not done, while the rest goes on
	done     bool     // something was changed
	ends     bool     // it is deleted
	answers  bool     // it can't be read, and its members answer
	blind    bool     // the ring was not looked at
	trouble  error
	observed ring.Observed

	elsewhere bool // another controller leads it
}

func (o outcome) steady() bool { return o.wait == ring.Steady && o.trouble == nil && !o.done }

// step looks, and does what is next.
func (x *automation) step(ctx context.Context, asked *v1alpha1.EtcdRing) (o outcome) {
	running, err := get(ctx, x.Client, &appsv1.StatefulSet{}, asked.Namespace, namesOf(asked).Set())
	if err != nil {
		return outcome{trouble: err, wait: "the ring's objects can't be read", blind: true}
	}
	known := Seen{Ring: asked, Set: running}
	if running != nil && !ours(asked, running) {
		known.Set = nil
	}
	unrestored := x.restore(ctx, asked)
	if err := x.learn(ctx, known.bootstrapped()); err != nil {
		x.restored = time.Time{}
		return outcome{trouble: cmp.Or(unrestored, err), wait: "the ring's records are not understood", blind: true}
	}
	known.Identity, known.Made = x.identity, x.made.last
	if why := refused(asked, known); why != "" {
		return outcome{halt: why, blind: x.identity != nil}
	}
	asked, unmet := met(asked, known)
	known.Ring = asked
	view, unread := x.view(ctx, known)
	if x.ledElsewhere(view) {
		_, _, err := x.reconciler.Leads(ctx, *view, x.lease) // so that it leads anew if it does again
		return outcome{seen: Seen{Ring: asked, View: view}, wait: "another controller leads the ring's automation", trouble: err, elsewhere: true}
	}
	s, err := x.look(ctx, asked, view)
	if err != nil {
		return outcome{seen: Seen{View: view}, trouble: err, wait: "the ring's objects can't be read", blind: true}
	}
	if why := s.strange(); why != "" {
		return outcome{seen: s, halt: why}
	}
	done, invalid, err := x.keep(ctx, s)
	if err != nil && !aside(err) {
		o = outcome{trouble: err, wait: "the ring's objects can't be changed"}
	} else if x.identity == nil && s.Ring.Spec.Paused {
		o = outcome{wait: "the ring isn't bootstrapped, as it is paused by the spec"}
	} else if x.identity == nil && s.static() {
		o = x.foundStatic(ctx, s)
	} else if x.identity == nil {
		o = x.found(ctx, s)
	} else if unread != nil {
		o = x.unread(s, unread)
	} else if s.static() {
		o = x.watch(ctx, s)
	} else {
		o = x.lead(ctx, s)
	}
	if !aside(err) {
		err = nil // it is told
	}
	o.trouble = cmp.Or(o.trouble, err, unrestored)
	o.seen, o.waits, o.done = s, x.ground.Waits, done
	o.refused = cmp.Or(invalid, unmet, x.ground.unsupported(s))
	return o
}

// ledElsewhere reports whether another controller leads the ring's automation, by the record in the
// ring: then nothing is done for the ring here, nor told of it. One that hung and was replaced goes on for
// ten seconds before client-go finds its Lease lost: it wrote a status in each turn, and its successor another.
func (x *automation) ledElsewhere(view *admin.View) bool {
	mine := x.reconciler.Lead
	return view != nil && view.Lead != nil && view.Lead.Holder == mine.Holder && view.Lead.Nonce != mine.Nonce
}

// strange is why nothing is done for a ring that would begin on what is somebody else's, or whose pods
// are; "": nothing of what it needs is. To change it, or to delete it with the ring, is nobody's wish.
func (s Seen) strange() string {
	if len(s.Strange) == 0 || s.Identity != nil && s.Set != nil {
		return ""
	}
	return fmt.Sprintf("%s there is, and is not of this ring: delete it, or make the ring under another name", strings.Join(s.Strange, ", "))
}

// refused is why nothing at all is done for a ring: what CEL lets nobody ask for, or, of a ring
// without the launcher that is to begin, what it can't have.
func refused(r *v1alpha1.EtcdRing, known Seen) string {
	n, fresh := r.Spec.ClusterSize, known.Set == nil && known.Identity == nil
	_, err := ring.ParseVersion("v" + r.Spec.Version)
	switch {
	case fresh && namesOf(r).Refused() != "":
		return "metadata.name: " + namesOf(r).Refused()
	case n < 3 || n > kube.MostSlots || n%2 == 0:
		return fmt.Sprintf("%d members are asked for: ask for 3, 5, 7 or 9", n)
	case fresh && known.static() && n != staticSize:
		return resized(n)
	case err != nil:
		return err.Error()
	}
	return ""
}

// met is what is asked for with the size that a ring without the launcher has, and which it keeps,
// and why it isn't the one asked for; "": it is. All else goes on: such a ring that was asked for five
// was looked after by nobody, and its status said that it wasn't bootstrapped.
func met(asked *v1alpha1.EtcdRing, known Seen) (as *v1alpha1.EtcdRing, unmet string) {
	if !known.static() || asked.Spec.ClusterSize == staticSize {
		return asked, ""
	}
	as = asked.DeepCopy()
	as.Spec.ClusterSize = staticSize
	return as, resized(asked.Spec.ClusterSize)
}

func resized(n int32) string {
	return fmt.Sprintf("%d members are asked for, and a ring without the launcher has %d: set spec.features.etcdLauncher to true, or spec.clusterSize back to %d", n, staticSize, staticSize)
}

// launched reports whether launchers are asked for. A ring that says nothing, once it is
// settled, has none by the defaults, and gets them when those change.
func launched(r *v1alpha1.EtcdRing) bool { return ptr.Deref(r.Spec.Features.EtcdLauncher, false) }

// unsupported is what of that which is asked for is not done, while all else goes on.
func (g Ground) unsupported(s Seen) string {
	switch {
	case g.course.refused != "":
		return g.course.refused
	case !ptr.Deref(s.Ring.Spec.Features.EtcdLauncher, true) && !s.static():
		return "the launcher can't be disabled once it is on: set spec.features.etcdLauncher back to true"
	case s.unrolled():
		return "other resources, or places to run, are asked for, and a member without a launcher has them when its pod is made anew: delete one pod after the other, or set spec.features.etcdLauncher to true"
	case s.static() && authoritiesAsked(s.Ring) > 1:
		return "new authorities are asked for, and a ring without the launcher keeps its first: set spec.features.etcdLauncher to true, or spec.certificates.authority back to 1"
	case s.Set != nil && len(s.Set.Spec.VolumeClaimTemplates) > 0 && !sameStorage(s.Set.Spec.VolumeClaimTemplates[0], claim(s.Ring)):
		return "other storage is asked for, and the claims of a StatefulSet's pods can't be changed: set spec.storage back, or make a new ring"
	}
	return ""
}

func sameStorage(a, b corev1.PersistentVolumeClaim) bool {
	return ptr.Equal(a.Spec.StorageClassName, b.Spec.StorageClassName) && a.Spec.Resources.Requests.Storage().Cmp(*b.Spec.Resources.Requests.Storage()) == 0
}

// view reads the ring. Nothing is read of one that isn't bootstrapped. Where none answers of those listed
// last, nor of its initial members, each slot is asked: a ring of nine was bootstrapped with three, whose nodes are
// off, and whoever has just begun to lead knows of nobody else.
func (x *automation) view(ctx context.Context, known Seen) (*admin.View, error) {
	if x.identity == nil {
		return nil, nil
	}
	credentials, changed, err := x.signers.credentials(x.host.Now(), known.Ring.Name, x.stage)
	if err != nil {
		return nil, err
	}
	if changed {
		x.ring.Close() // clients dial with what they were given
		x.ring.Secure = credentials
	}
	x.ring.Cluster = x.identity.ClusterID()
	endpoints := slices.Clone(x.members)
	for _, f := range x.identity.Members {
		endpoints = append(endpoints, f.ClientURL)
	}
	for i := range known.replicas() {
		endpoints = append(endpoints, namesOf(known.Ring).ClientURL(namesOf(known.Ring).Slot(int(i))))
	}
	x.ring.Use(endpoints...)
	view, err := x.ring.View(ctx)
	if err != nil {
		return nil, err
	}
	x.members, x.voters = view.ClientURLs(), voters(view)
	return &view, nil
}

// voters counts the members that vote.
func voters(v admin.View) (n int) {
	for _, m := range v.Members {
		if !m.IsLearner {
			n++
		}
	}
	return n
}

// look sees what there is, and decides what there is to be. What can't be taken back is
// decided on what the API server itself says: a cache that lags shows a volume as lost
// that was replaced since, or initial members on disks that are gone by now.
func (x *automation) look(ctx context.Context, asked *v1alpha1.EtcdRing, view *admin.View) (s Seen, err error) {
	for _, from := range []client.Reader{x.Client, x.Live} {
		if s, err = look(ctx, from, Seen{Ring: asked, Image: x.Image, Identity: x.identity, Made: x.made.last, View: view, Voters: x.voters, Heard: heard(x.observed), Last: x.last}); err != nil {
			return s, err
		}
		x.last = cmp.Or(s.Set, x.last)
		s.Quiet = x.quiet.count(s.away(), x.host.Monotonic(), view == nil && x.identity != nil)
		x.ground, x.seen = ground(s, x.host.Now(), x.ReplaceAfter), s
		if !x.ground.destroys() && !s.begins() {
			return s, nil
		}
	}
	return s, nil
}

// heard are the machines whose members serve.
func heard(o ring.Observed) map[string]bool {
	all := map[string]bool{}
	for _, m := range o.Members {
		all[m.Machine] = all[m.Machine] || m.Serving
	}
	return all
}

// keep has the objects be what they are to be, the Secrets first, as pods mount them. What is
// asked for may be what no pod can have, a resource that is none: why is then in invalid, and
// the ring is looked after as it was. So it is where a quota, a webhook or a policy refuses
// something. A turn that ended there had a volume that was lost since replaced by nobody.
func (x *automation) keep(ctx context.Context, s Seen) (done bool, invalid string, err error) {
	renewed, put := x.renewAuthorities(ctx, s)
	if put = x.putAside(put); renewed || put != nil && !aside(put) {
		return false, "", put
	}
	if s.Set != nil {
		if err := x.noteMade(ctx, s.Set); err != nil {
			put = cmp.Or(put, error(putAside{err})) // what pods are to be made with later is noted before that is changed
		}
	}
	changes, err := x.certify(ctx, s)
	if err = x.putAside(err); err != nil && !aside(err) {
		return false, "", err
	}
	put = cmp.Or(put, err)
	for _, c := range append(changes, x.ground.Changes...) {
		made, why, err := x.make(ctx, c)
		done, invalid = done || made, cmp.Or(invalid, why)
		if err = x.putAsideOf(c, err); err != nil && !aside(err) {
			return done, invalid, err
		}
		put = cmp.Or(put, err)
	}
	return done, invalid, put
}

// putAsideOf is what becomes of why a change wasn't made.
func (x *automation) putAsideOf(c Change, err error) error {
	if err == nil {
		return nil
	}
	told := fmt.Errorf("%s: %w", c, err)
	if c.aside() {
		return putAside{told}
	}
	if _, is := c.Object.(*policyv1.PodDisruptionBudget); is && x.refusals.lasts(c, x.host.Monotonic()) > mostPause {
		x.ground.rebudgets = false // who is lost is to be replaced, whatever is granted to drains
	}
	return x.putAside(told)
}

// putAside has all else go on, of a ring that was bootstrapped, if the API server refused it; one that begins
// needs all that it asks for.
func (x *automation) putAside(err error) error {
	if x.identity != nil && refusedBy(err) {
		return putAside{err}
	}
	return err
}

// putAside is why something was not changed that nothing else rests on.
type putAside struct{ error }

func (p putAside) Unwrap() error { return p.error }

func aside(err error) bool { return errors.As(err, new(putAside)) }

// make writes a change, or what is left of it without the pods that can't be. What was refused is
// not asked for with each look: another API server may take it, or another webhook.
func (x *automation) make(ctx context.Context, c Change) (done bool, why string, err error) {
	err = x.refusals.standing(c, x.host.Monotonic())
	if err == nil {
		err = x.log.Act(c.line(), func() error {
			if err := x.noteFor(ctx, c); err != nil {
				return err
			}
			return c.make(ctx, x.Client)
		})
		x.refusals.note(c, err, x.host.Monotonic())
	}
	if c.template() == "" || !refusedBy(err) {
		return err == nil, "", err
	}
	why = "what is asked for is refused by the API server, and nobody has it, so edit the spec again: " + err.Error()
	if c.Without == nil {
		return false, why, nil
	}
	done, _, err = x.make(ctx, *c.Without)
	return done, why, err
}

// certified is when which slots' certificates were looked at last.
type certified struct {
	slots int32
	at    time.Time
}

const certifyPace = time.Minute // between two looks at Secrets that were in order

// certify lists the Secrets that are to be made or changed: those of slots, and that of the ring's
// clients.
func (x *automation) certify(ctx context.Context, s Seen) (changes []Change, err error) {
	now, slots := x.host.Now(), s.replicas()
	if since := now.Sub(x.certified.at); slots <= x.certified.slots && since >= 0 && since < certifyPace {
		return nil, nil
	}
	all, strange, err := x.secrets(ctx, s.Ring, slots)
	if err != nil || strange != nil && x.identity == nil {
		return nil, cmp.Or(err, strange)
	}
	x.stage = x.signers.stage(s.View, ofSlots(all))
	for _, o := range all {
		if o.theirs {
			continue
		}
		c, due, err := o.due(x.stage, s.Ring, now)
		if err != nil {
			return nil, err
		}
		if due {
			changes = append(changes, c)
		}
	}
	if strange != nil {
		return changes, putAside{strange}
	}
	if len(changes) == 0 && x.stage.over {
		x.certified = certified{slots, now}
	}
	if !x.stage.over {
		x.ground.Pending = x.stage.waits
	}
	if len(changes) == 0 {
		maps.Copy(x.ground.Rolls, x.stage.rolls(s.View))
	}
	return changes, nil
}

// secrets reads what there is of the Secrets of so many slots, and of the ring's clients; strange
// says of which there is somebody else's. They are read from the API server itself, as no cache
// should hold them.
func (x *automation) secrets(ctx context.Context, r *v1alpha1.EtcdRing, slots int32) (all []secret, strange, err error) {
	for i := range int(slots) + 1 {
		o := secret{slot: i, name: namesOf(r).Certificates(i)}
		if i == int(slots) {
			o.slot, o.name = ofClients, namesOf(r).ClientCertificates()
		}
		if o.before, err = get(ctx, x.Live, &corev1.Secret{}, r.Namespace, o.name); err != nil {
			return nil, nil, err
		}
		if o.before != nil && !ours(r, o.before) {
			strange = errors.Join(strange, fmt.Errorf("secret %s there is, and is not of this ring: delete it", o.name))
			o.before, o.theirs = nil, true
		}
		all = append(all, o)
	}
	return all, strange, nil
}

// unread says what it means that the ring can't be read.
func (x *automation) unread(s Seen, why error) outcome {
	spec := x.spec(s)
	d := x.reconciler.Unread(spec, why)
	return outcome{wait: "the ring can't be read: " + why.Error(), halt: d.Halt, commands: x.commands(s, d), observed: x.observed,
		answers: reconcile.WantsUser(why)}
}

func (x *automation) spec(s Seen) ring.Spec {
	asked := kube.SpecOf(s.Ring, x.ground.course.version, x.identity)
	asked.From = x.ground.course.from
	spec := asked.Wanted()
	spec.Own, spec.Restart = x.ground.course.own(s), x.ground.Rolls
	spec.Pending = x.ground.Pending
	spec.ReplaceAfter = x.ReplaceAfter
	return spec
}

const unnoted = "the records take no note that the ring has answered"

// lead takes the ring's next step, if this process leads.
func (x *automation) lead(ctx context.Context, s Seen) outcome {
	x.reconciler.Read()
	if err := x.lease.Keep(ctx, x.ring); err != nil {
		return x.untold(s, err, "the ring takes no lease")
	}
	view := *s.View
	fence, leads, err := x.reconciler.Leads(ctx, view, x.lease)
	if err != nil {
		return x.untold(s, err, "the ring takes no lead")
	}
	if !leads {
		return outcome{wait: "another process leads the ring's automation, or nobody yet"}
	}
	if !x.formed && !x.identity.Static && x.reconciler.Bind(ctx, view, x.identity.Members, fence) {
		return outcome{wait: "members are bound to the initial members' disks"}
	}
	if err := x.noteFormed(ctx, view.ClusterID); err != nil {
		return outcome{trouble: err, wait: unnoted}
	}
	if x.ground.rebudgets {
		return outcome{wait: "evictions are granted by another budget from now on: who goes by the former is seen first", observed: x.observed}
	}
	view.Registered = x.registered(s)
	d := x.reconciler.Step(ctx, view, x.spec(s), fence)
	o := outcome{wait: d.Wait, halt: d.Halt, commands: x.commands(s, d), observed: x.observed}
	if d.Action != nil {
		o.wait = d.Action.Why
	}
	var waits string
	if waits, o.trouble = x.restart(ctx, s, d.Due); waits != "" {
		o.wait += ": " + waits
	}
	if d.Wait == ring.Steady && o.trouble == nil {
		o.trouble = x.reconciler.Tidy(ctx, view, fence)
	}
	return o
}

// untold is what becomes of a step in which the ring takes no word of who leads.
func (x *automation) untold(s Seen, err error, wait string) outcome {
	d := x.reconciler.Barred(err)
	return outcome{trouble: err, wait: wait, halt: d.Halt, commands: x.commands(s, d), observed: x.observed}
}

// registered are the peer URLs of the slots.
func (x *automation) registered(s Seen) map[string][]string {
	all, n := map[string][]string{}, namesOf(s.Ring)
	for _, slot := range s.Slots {
		all[slot.Name] = []string{n.PeerURL(slot.Name, kube.Began(s.Identity))}
	}
	return all
}
