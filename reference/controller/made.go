// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"cmp"
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/ring"
	"github.com/ringproof/ringproof/reference/store"
)

// What pods are made with is noted before the set is changed to it, and goes by that where the set
// is gone. One that is made anew of the spec has all members come back at once with whatever was
// asked for and held back: with v3.7, of which the nodes had not tried the image, and whose etcd
// can't read the logs that v3.5 has written. Of a ring that was adopted it says that there are
// launchers by now: without, its members would listen for plain text where they are listed with TLS.

// madeOf is what a set has pods made with.
func madeOf(set *appsv1.StatefulSet) (store.Made, bool) {
	version, err := ring.ParseVersion(set.Annotations[kube.VersionAnnotation])
	from, _ := ring.ParseVersion(set.Annotations[kube.FromAnnotation]) // what is none of a release tells of no upgrade
	return store.Made{Version: version, From: from, Launchers: hasLauncher(set.Spec.Template.Spec)}, err == nil
}

// learnMade reads it, of a ring that has been bootstrapped.
func (x *automation) learnMade(ctx context.Context) error {
	if x.made.n > 0 || x.identity == nil {
		return nil
	}
	n, made, err := x.makings().Latest(ctx)
	if err != nil {
		return err
	}
	x.made.n, x.made.last = n, made
	return nil
}

func (x *automation) makings() store.Log[store.Made] {
	return store.Log[store.Made]{Store: x.records, Prefix: kube.MadePrefix}
}

// noteFor notes what pods are made with once a set is changed so, if the API server would take it: of
// what it refused each time two records were left, of that and of what stayed.
func (x *automation) noteFor(ctx context.Context, c Change) error {
	set, is := c.Object.(*appsv1.StatefulSet)
	if !is || x.noted(set) {
		return nil
	}
	if c.Verb == Update || c.Verb == Annotate { // one that is made is as was noted last
		if err := client.NewDryRunClient(x.Client).Update(ctx, set.DeepCopy()); err != nil {
			return err
		}
	}
	return x.noteMade(ctx, set)
}

// noted reports whether there is nothing to note: of a ring that was never bootstrapped there is nothing to
// come back to.
func (x *automation) noted(set *appsv1.StatefulSet) bool {
	made, known := madeOf(set)
	return !known || x.identity == nil || x.made.n > 0 && x.made.last == made
}

// noteMade notes what pods are made with from now on. Whether a note that failed was taken is not
// known, so it is read anew: by a number that is taken already nothing was noted any more, and nobody
// looked after the ring.
func (x *automation) noteMade(ctx context.Context, set *appsv1.StatefulSet) error {
	if x.noted(set) {
		return nil
	}
	made, _ := madeOf(set)
	n, err := x.makings().Append(ctx, x.made.n, made)
	if err != nil {
		x.made.n = 0
		return err
	}
	x.made.n, x.made.last = n, made
	return nil
}

// made is what pods are made with: what the set says, else what was noted last.
func (s Seen) made() store.Made {
	if s.Set != nil {
		if made, known := madeOf(s.Set); known {
			return made
		}
	}
	launchers := s.Made.Launchers || s.Identity != nil && !s.Identity.Static
	return store.Made{Version: cmp.Or(s.Made.Version, s.asked()), From: s.Made.From, Launchers: launchers}
}
