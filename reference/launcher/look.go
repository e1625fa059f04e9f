// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/ringproof/ringproof/reference/admin"
	"github.com/ringproof/ringproof/reference/host"
)

// Look is the ring as one turn has seen it.
type Look struct {
	View    admin.View
	Unread  error // why there is no view; nil: there is
	Second  bool  // another machine of this one's name is there, so that this one does nothing
	running bool  // an etcd ran here when the turn began
}

// look reads the ring's own records, and says what is wrong with them.
func (l *Launcher) look(ctx context.Context) Look {
	view, err := l.view(ctx)
	l.tellStranger(err)
	if len(view.Unreadable) > 0 {
		l.log.Say(host.EventTrouble, strings.Join(view.Unreadable, "; "))
	}
	return Look{View: view, Unread: err}
}

// view reads the ring's own records through any endpoint that is known.
func (l *Launcher) view(ctx context.Context) (admin.View, error) {
	switch {
	case l.Known.Identity != nil:
		l.Ring.Cluster = l.Known.Identity.ClusterID()
	case l.Known.IdentityKnown:
		return admin.View{}, errors.New("no ring has been bootstrapped yet")
	default:
		return admin.View{}, errors.New("which ring this is, is not known: " + l.Known.Trouble)
	}
	l.Ring.Use(append([]string{l.clientURL()}, l.endpoints()...)...)
	return l.Ring.View(ctx)
}

// endpoints lists the clients' URLs that this machine has heard of, the latest
// first.
func (l *Launcher) endpoints() []string {
	all := slices.Clone(l.Known.Members)
	if id := l.Known.Identity; id != nil {
		for _, f := range id.Members {
			all = append(all, f.ClientURL)
		}
	}
	for _, address := range l.Source.Heard() {
		all = append(all, l.Known.Spec.Security.URL(address, clientPort))
	}
	return all
}

// tellStranger says that another ring answers where this one should: a halt when
// nobody else answers.
func (l *Launcher) tellStranger(unread error) {
	var stranger *admin.StrangerError
	switch {
	case errors.As(unread, &stranger):
		l.log.Say(host.EventHalted, unread.Error())
	case l.Ring.Stranger != nil:
		l.log.Say(host.EventTrouble, l.Ring.Stranger.Error())
	}
}
