// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package cli

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringproof/ringproof/internal/etcdbin"
)

func etcdCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "etcd",
		Short: "the etcd releases that rings run: build them, and see which there are",
	}, etcdInstallCommand(), listingCommand("list", etcdListing))
}

// release is an etcd release in the cache.
type release struct{ etcdbin.Release }

func (r release) columns() []string {
	return []string{r.Version, r.Digests["etcd"][:min(12, len(r.Digests["etcd"]))], r.GoVersion, r.tools(), r.Etcd}
}

// tools says which are of another release, as their own can't be had.
func (r release) tools() string {
	var others []string
	for _, file := range slices.Sorted(maps.Keys(r.Borrowed)) {
		others = append(others, file+" "+r.Borrowed[file])
	}
	switch {
	case r.Etcdctl == "":
		return "none"
	case len(others) == 0:
		return "own"
	}
	return strings.Join(others, ", ")
}

var releaseHeader = []string{"VERSION", "SHA-256", "GO", "TOOLS", "ETCD"}

func etcdInstallCommand() *cobra.Command {
	var tools, asJSON bool
	c := &cobra.Command{
		Use:     "install VERSION...",
		Short:   "build releases from the Go module proxy and keep them in the cache",
		Example: "  ringproof etcd install v3.5.35 v3.6.16",
		RunE: func(c *cobra.Command, args []string) error {
			if err := releaseNames(c, args); err != nil {
				return err
			}
			installed, err := installAll(c, tools, args)
			if err != nil {
				return err
			}
			return listed{releaseHeader, installed}.print(c, asJSON)
		},
	}
	c.Flags().BoolVar(&tools, "tools", false, "etcdctl and etcdutl too, which take twice as long; else they are built when something runs them")
	c.Flags().BoolVar(&asJSON, "json", false, "print the releases as JSON")
	return c
}

var releaseName = regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+$`)

func releaseNames(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("%s takes one release or more, as v3.6.16", c.CommandPath())
	}
	for _, arg := range args {
		if !releaseName.MatchString(arg) {
			return usage("%q is no etcd release; write it in full, as v3.6.16", arg)
		}
	}
	return nil
}

func installAll(c *cobra.Command, tools bool, versions []string) ([]row, error) {
	cache, err := etcdbin.DefaultCache()
	if err != nil {
		return nil, environment(err)
	}
	install := cache.Install
	if tools {
		install = cache.InstallTools
	}
	var installed []row
	for _, v := range versions {
		r, err := install(c.Context(), v, func(line string) { fmt.Fprintln(c.ErrOrStderr(), line) })
		if err != nil {
			return nil, notInstalled(err)
		}
		installed = append(installed, release{r})
	}
	return installed, nil
}

// notInstalled tells a release that doesn't exist from a host that can't build
// one.
func notInstalled(err error) error {
	if errors.Is(err, etcdbin.ErrUnknownVersion) {
		return usage("%w", err)
	}
	return environment(err)
}
