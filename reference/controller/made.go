// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"cmp"
	"context"

	appsv1 "k8s.io/api/apps/v1"

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

// learnMade reads it, of a ring that has been founded.
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

// noteMade notes what pods are made with from now on. Of a ring that was never founded there is
// nothing to come back to. Whether a note that failed was taken is not known, so it is read anew: by
// a number that is taken already nothing was noted any more, and nobody looked after the ring.
func (x *automation) noteMade(ctx context.Context, set *appsv1.StatefulSet) error {
	made, known := madeOf(set)
	if !known || x.identity == nil || x.made.n > 0 && x.made.last == made {
		return nil
	}
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
