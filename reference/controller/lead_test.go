// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/host"
)

// TestAnotherControllersRingIsLeft: whose ring it is says the record of the lead alone. An agent that
// somebody runs beside the controllers is none of them, and changes no object of the cluster's.
func TestAnotherControllersRingIsLeft(t *testing.T) {
	r := New(Config{Host: host.NewReal("controller", t.TempDir(), t.TempDir(), nil)})
	x := r.automation(&v1alpha1.EtcdRing{ObjectMeta: metav1.ObjectMeta{Namespace: "rings", Name: "r"}})
	mine := x.reconciler.Lead
	another, agent := mine, mine
	another.Nonce, agent.Holder, agent.Nonce = "another", "m1", "another"
	for name, test := range map[string]struct {
		view  *admin.View
		there bool
	}{
		"not read":         {nil, false},
		"nobody leads":     {&admin.View{}, false},
		"this one does":    {&admin.View{Lead: &mine}, false},
		"another does":     {&admin.View{Lead: &another}, true},
		"an agent does so": {&admin.View{Lead: &agent}, false},
	} {
		assert.Equal(t, test.there, x.ledElsewhere(test.view), name)
	}
}
