// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof/internal/etcdbin"
	"github.com/ringproof/ringproof/internal/kind"
	"github.com/ringproof/ringproof/internal/local/machines"
	"github.com/ringproof/ringproof/internal/virtual"
)

// capability is something that this host can do or not.
type capability struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`    // what to do when it is not OK
	Untold bool   `json:"untold,omitempty"` // it is not known: the trial took too long
}

// diagnosis is what doctor found.
type diagnosis struct {
	World        string       `json:"world"`
	CanRun       bool         `json:"canRun"`
	Why          string       `json:"why,omitempty"` // it can't
	Capabilities []capability `json:"capabilities"`
}

func (p *program) doctorCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "what this host can do, and what to mend where it can't",
		Args:  none,
		RunE: func(c *cobra.Command, _ []string) error {
			found := p.examine()
			var err error
			if asJSON {
				err = printJSON(c.OutOrStdout(), found)
			} else {
				found.print(c)
			}
			if err == nil && !found.CanRun {
				return environment(errors.New("no ring can run here: " + found.Why))
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}

// examine tries the host. Without namespaces rings still run, on loopback
// addresses; without an etcd, or a way to build one, they don't.
func (p *program) examine() diagnosis {
	in, _ := p.first(false)
	d := diagnosis{World: in.Name}
	able := map[string]bool{}
	for _, found := range machines.Doctor() {
		able[found.Name] = found.OK
		d.add(capability(found))
	}
	if able["docker"] {
		for _, found := range kind.Doctor(context.Background()) {
			d.add(capability(found))
		}
	}
	cached := cachedReleases()
	d.add(cached)
	ringadm := ringadmHere()
	d.add(ringadm)
	if able["go"] {
		d.add(capability(virtual.Doctor(context.Background())))
	}
	switch {
	case in.Name == "":
		d.CanRun = true // what is simulated needs nothing of a host
	case runtime.GOOS != "linux":
		d.Why = "the local world needs Linux"
	case !able["go"] && !cached.OK:
		d.Why = "there is no etcd in the cache, and no Go to build one"
	case !ringadm.OK:
		d.Why = "there is no ringadm"
	default:
		d.CanRun = true
	}
	return d
}

func (d *diagnosis) add(found capability) {
	if found.OK {
		found.Fix = ""
	}
	d.Capabilities = append(d.Capabilities, found)
}

func cachedReleases() capability {
	found := capability{Name: "etcd cache", Fix: "ringproof etcd install v3.6.16 builds one now; otherwise the first run does"}
	cache, err := etcdbin.DefaultCache()
	if err != nil {
		found.Detail = err.Error()
		return found
	}
	releases, err := cache.List()
	var versions []string
	for _, r := range releases {
		versions = append(versions, r.Version)
	}
	found.OK, found.Detail = len(versions) > 0, strings.Join(versions, ", ")
	switch {
	case err != nil:
		found.OK, found.Detail = false, strings.ReplaceAll(err.Error(), "\n", "; ")
	case !found.OK:
		found.Detail = "no release yet"
	}
	return found
}

func ringadmHere() capability {
	path, err := runFlags{}.findRingadm()
	if err != nil {
		return capability{Name: "ringadm", Detail: err.Error(), Fix: "make build"}
	}
	return capability{Name: "ringadm", OK: true, Detail: path}
}

func (d diagnosis) print(c *cobra.Command) {
	for _, found := range d.Capabilities {
		mark := "ok"
		switch {
		case found.Untold:
			mark = "??"
		case !found.OK:
			mark = "--"
		}
		fmt.Fprintf(c.OutOrStdout(), "%s  %-16s %s\n", mark, found.Name, found.Detail)
		if found.Fix != "" {
			fmt.Fprintf(c.OutOrStdout(), "    %-16s fix: %s\n", "", found.Fix)
		}
	}
}

func cleanCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "clean",
		Short: "remove what killed runs left behind",
		Long: `clean ends the processes and removes the folders and the kind clusters that runs
left behind when they were killed, and prints each. Runs that still live are left alone. Reports
and the etcd cache stay.`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			removed, err := machines.Clean()
			clusters, more := kind.Clean()
			removed, err = append(removed, clusters...), errors.Join(err, more)
			if asJSON {
				return errors.Join(printJSON(c.OutOrStdout(), append([]string{}, removed...)), environment(err))
			}
			for _, what := range removed {
				fmt.Fprintln(c.OutOrStdout(), what)
			}
			if len(removed) == 0 && err == nil {
				fmt.Fprintln(c.ErrOrStderr(), "nothing was left behind")
			}
			return environment(err)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print what was removed as JSON")
	return c
}
