// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package main

// worldEntry is a world that this program can run plans in.
type worldEntry struct {
	Name  string `json:"name"`
	Doc   string `json:"doc"`
	Needs string `json:"needs"`
}

func (w worldEntry) columns() []string { return []string{w.Name, w.Needs, w.Doc} }

var worlds = []worldEntry{{
	Name:  "sim",
	Doc:   "the subject's own code on simulated machines, network, disks and etcd, in virtual time, the same in every run of a plan",
	Needs: "nothing",
}, {
	Name:  "local",
	Doc:   "real etcd and the subject's real processes on this host: a network namespace and a data filesystem a machine, in real time",
	Needs: "Linux with user namespaces, or root",
}}

// known refuses a world that there isn't.
func known(world string) error {
	var names []string
	for _, w := range worlds {
		if w.Name == world {
			return nil
		}
		names = append(names, w.Name)
	}
	return usage("there is no world %q; %s", world, hint(world, names))
}
