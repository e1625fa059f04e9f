// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package foreign

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/ringproof/ringproof"
	"github.com/ringproof/ringproof/internal/seam"
	"github.com/ringproof/ringproof/internal/trial"
)

// proxy stands between an operator and the API server. An operator of somebody's has no
// seams, but each of its writes passes here, in order and in clear text: there its process
// dies before or after the write, or the write is refused, or its reply is lost, or what
// its informers watch is held back. It knows writes by the names that package faults has:
// "kube create pod".
type proxy struct {
	next http.Handler // the API server
	pods trial.Pods   // who asks
	kind func(schema.GroupVersionResource) string

	mu     sync.Mutex
	set    seam.Faults
	turns  seam.Counters
	kept   seam.Journal // while the probe is set
	hidden map[schema.GroupResource]*hiding
}

// hiding is what keeps the watches of one resource from being told.
type hiding struct {
	writes int       // that are under way, of which nobody is to hear before it is known how they end
	until  time.Time // and for so long after one
}

// inject sets what a step does, in the place of what it did before.
func (f *proxy) inject(s ringproof.Seams) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set = f.set.With(seam.Of(s, ""))
}

// ServeHTTP answers what the operator asks.
func (f *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	of, err := requests.NewRequestInfo(r)
	resource := schema.GroupResource{}
	if err == nil {
		resource = schema.GroupResource{Group: of.APIGroup, Resource: of.Resource}
	}
	switch {
	case err != nil || !of.IsResourceRequest:
		f.next.ServeHTTP(w, r)
	case of.Verb == "watch":
		f.next.ServeHTTP(behind{w, f, resource}, r)
	default:
		if effect := f.effect(r, of); effect != "" {
			f.write(w, r, effect, resource)
			return
		}
		f.next.ServeHTTP(w, r)
	}
}

var requests = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// verbs are those of writes, as kubectl has them.
var verbs = map[string]string{"create": "create", "update": "update", "patch": "patch", "delete": "delete", "deletecollection": "delete"}

// aside are resources whose writes change nothing that an operator acts on: who leads is
// written all the time, what is told of events nobody reads, and a review is a question.
var aside = []schema.GroupResource{{Group: "coordination.k8s.io", Resource: "leases"}, {Resource: "events"}, {Group: "events.k8s.io", Resource: "events"}}

// effect is what the request is called; "": it changes nothing that counts.
func (f *proxy) effect(r *http.Request, of *request.RequestInfo) string {
	verb := verbs[of.Verb]
	switch {
	case verb == "" || r.URL.Query().Has("dryRun") || slices.Contains(aside, schema.GroupResource{Group: of.APIGroup, Resource: of.Resource}),
		of.APIGroup == "authentication.k8s.io", of.APIGroup == "authorization.k8s.io":
		return ""
	case of.Verb == "patch" && strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch+"):
		verb = "apply"
	}
	switch of.Subresource {
	case "":
	case "status":
		verb = "status"
	default: // an eviction, a scale
		return "kube " + verb + " " + of.Subresource
	}
	return "kube " + verb + " " + f.kind(schema.GroupVersionResource{Group: of.APIGroup, Version: of.APIVersion, Resource: of.Resource})
}

// write passes a write, with what is set there.
func (f *proxy) write(w http.ResponseWriter, r *http.Request, effect string, of schema.GroupResource) {
	note := f.reach(effect)
	if s, ok := f.fires(effect, seam.Late); ok {
		f.delay(r, s) // and no further
	}
	if s, ok := f.fires(effect, seam.Before, seam.Refused); ok {
		f.cut(w, r, s, nil)
		return
	}
	if f.unseen(effect) {
		f.hold(of, 1)
		defer f.hold(of, -1)
	}
	a := &answer{header: http.Header{}}
	f.next.ServeHTTP(a, r)
	if a.code >= 200 && a.code < 300 { // one that failed by itself has no reply to lose
		f.done(note)
		s, ok := f.fires(effect, seam.After, seam.ReplyLost, seam.Unseen)
		switch {
		case ok && s.Fault.Phase == seam.Unseen:
			f.hide(of, s.UnseenFor())
			f.landed(r, s)
		case ok:
			f.cut(w, r, s, a)
			return
		}
	}
	a.pass(w)
}

// whose are an operator's writes.
var whose = seam.Origin{Scope: ringproof.ScopeController}

// reach notes that the operator came to a write.
func (f *proxy) reach(effect string) (note int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, probed := f.set.Probe(); !probed {
		return -1
	}
	return f.kept.Reach(whose, effect)
}

// done notes that it was done.
func (f *proxy) done(note int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, probed := f.set.Probe(); probed {
		f.kept.Done(note)
	}
}

// fires takes the turn of every step that waits here in one of the phases, and returns the
// one whose turn it is.
func (f *proxy) fires(effect string, phases ...string) (now seam.Setting, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.set.Set {
		if s.Fault.Effect == effect && slices.Contains(phases, s.Fault.Phase) && s.Fires(f.turns) && !ok {
			now, ok = s, true
		}
	}
	return now, ok
}

// unseen reports whether the write may have to be hidden.
func (f *proxy) unseen(effect string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.set.Set, func(s seam.Setting) bool { return s.Fault.Effect == effect && s.Fault.Phase == seam.Unseen })
}

// cut does what the step does instead of giving the answer, if there is one.
func (f *proxy) cut(w http.ResponseWriter, r *http.Request, s seam.Setting, a *answer) {
	switch s.Fault.Phase {
	case seam.Refused: // as an API server that is about to end
		f.landed(r, s)
		refuse(w)
		return
	case seam.ReplyLost:
		f.landed(r, s)
		panic(http.ErrAbortHandler)
	}
	if err := f.pods.Kill(asker(r)); err != nil { // whoever asked is dead already
		a.pass(w)
		return
	}
	f.landed(r, s)
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// delay has the write done a while later, by when whoever asks has given up: he has no answer.
// Of one who is gone with half of what he said nothing is late.
func (f *proxy) delay(r *http.Request, s seam.Setting) {
	if body, err := io.ReadAll(r.Body); err == nil {
		late := r.Clone(context.WithoutCancel(r.Context()))
		late.Body = io.NopCloser(bytes.NewReader(body))
		time.AfterFunc(s.LateBy(), func() {
			asking, cancel := context.WithTimeout(late.Context(), seam.LateWithin)
			defer cancel()
			f.next.ServeHTTP(&answer{header: http.Header{}}, late.WithContext(asking))
		})
		f.landed(r, s)
	}
	panic(http.ErrAbortHandler)
}

// asker is the address of the pod that asks.
func asker(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero address is nobody's
	return at.Addr()
}

// told is the line by which a cut is told to whoever hears what pods print.
type told struct {
	Landed string `json:"ringproof-fault-landed"` // the step
	Text   string `json:"text"`
}

// landed tells that a step's fault landed.
func (f *proxy) landed(r *http.Request, s seam.Setting) {
	line, err := json.Marshal(told{s.Step, s.Fault.Effect + ": " + s.Happens("the operator")})
	if err == nil {
		f.pods.Tell(asker(r), string(line))
	}
}

// refuse answers as an API server does that can't take a request now.
func refuse(w http.ResponseWriter) {
	const code = http.StatusServiceUnavailable
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonServiceUnavailable,
		Message: "refused by a fault", Code: code})
}

// answer is an answer that is kept until it is known whether it is given.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) {
	if code >= 200 { // those before it are none yet
		a.code = cmp.Or(a.code, code)
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// pass gives it. Without one the request was never asked.
func (a *answer) pass(w http.ResponseWriter) {
	if a == nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range a.header { // order: into a map
		w.Header()[name] = values
	}
	w.WriteHeader(cmp.Or(a.code, http.StatusOK))
	_, _ = w.Write(a.body.Bytes()) // whoever asked may be gone
}

// hold keeps the watches of a resource from being told while writes are under way.
func (f *proxy) hold(of schema.GroupResource, more int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hiding(of).writes += more
}

// hide keeps them from being told for a time.
func (f *proxy) hide(of schema.GroupResource, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hiding(of).until = time.Now().Add(d)
}

func (f *proxy) hiding(of schema.GroupResource) *hiding {
	if f.hidden == nil {
		f.hidden = map[schema.GroupResource]*hiding{}
	}
	if f.hidden[of] == nil {
		f.hidden[of] = &hiding{}
	}
	return f.hidden[of]
}

// shown waits until the watches of a resource may be told.
func (f *proxy) shown(of schema.GroupResource) {
	for {
		f.mu.Lock()
		h := f.hiding(of)
		wait := time.Until(h.until)
		if h.writes > 0 {
			wait = max(wait, time.Millisecond)
		}
		f.mu.Unlock()
		if wait <= 0 {
			return
		}
		time.Sleep(wait)
	}
}

// behind is the answer to a watch, which is told late what is hidden.
type behind struct {
	http.ResponseWriter
	proxy *proxy
	of    schema.GroupResource
}

func (b behind) Write(p []byte) (int, error) {
	b.proxy.shown(b.of)
	return b.ResponseWriter.Write(p)
}

// Unwrap has the answer flushed.
func (b behind) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// kindOf is a resource as kubectl names its kind; one that the API server doesn't know is
// called what it is called.
func (p *Pods) kindOf(r schema.GroupVersionResource) string {
	kind, err := p.api.RESTMapper().KindFor(r)
	if err != nil {
		return r.Resource
	}
	return strings.ToLower(kind.Kind)
}

// Proxy stands before the API server, where the plan's faults hit calls to it.
func (p *Pods) Proxy(next http.Handler, pods trial.Pods) http.Handler {
	p.proxy.next, p.proxy.pods, p.proxy.kind = next, pods, p.kindOf
	return &p.proxy
}

// Begin has a journal kept, from the first write on that counts.
func (*Pods) Begin() ringproof.Fault {
	f := seam.Probe()
	f.Scope, f.Effect = ringproof.ScopeController, "kube create pod"
	return f
}

// Journal is what the operator wrote while the probe was set. What its ring was is how much
// had been written by then.
func (p *Pods) Journal() (*ringproof.Journal, error) { return &p.proxy.kept.Journal, nil }

// hearProxy finds what the proxy has told.
func hearProxy(line string) (ringproof.Event, bool) {
	var t told
	if json.Unmarshal([]byte(line), &t) != nil || t.Landed == "" {
		return ringproof.Event{}, false
	}
	return ringproof.Event{Kind: ringproof.EventFaultLanded, Step: t.Landed, Text: t.Text}, true
}

// arm sets the faults that begin with the run: the operator writes before there is a ring.
func (p *Pods) arm() {
	for _, s := range p.plan.Steps {
		if cuts(s) && s.Early() && !s.After.Awaited() {
			p.proxy.inject(s.At())
		}
	}
}

// cuts reports whether the step's fault hits calls to the API server.
func cuts(s ringproof.Step) bool {
	return s.Fault != nil && s.Fault.Kind == ringproof.FaultAgentCrash
}

var _ http.Handler = (*proxy)(nil)
