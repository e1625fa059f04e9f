// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringproof/ringproof/internal/lockstep"
)

// unconfigured is how long the kubelet waits until it looks again for what a variable is
// taken from.
const unconfigured = 10 * time.Second

// variables are those of a container, in the order in which they were named first: one that
// is named again has its later value in its former place.
type variables struct {
	names  []string
	values map[string]string
}

func (v *variables) set(name, value string) {
	if v.values == nil {
		v.values = map[string]string{}
	}
	if _, known := v.values[name]; !known {
		v.names = append(v.names, name)
	}
	v.values[name] = value
}

// configured waits until all is there that the container's variables are taken from, and
// reports whether it is. They are as they were found for as long as the container lives:
// what it starts later, for a probe, asks the API server nothing.
func (c *container) configured() bool {
	for c.pod.ctx.Err() == nil {
		env, err := c.pod.variables(c.pod.ctx, c.spec)
		if err == nil {
			c.env = env
			return true
		}
		c.change(func() { c.state = waiting("CreateContainerConfigError", err.Error()) })
		pause(c.pod.ctx, unconfigured)
	}
	return false
}

// environment is that of the container's programs.
func (c *container) environment() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME=" + c.pod.hostname(), "HOME=/", "TZ=UTC",
		"KUBERNETES_SERVICE_HOST=" + c.pod.k.Server.Addr().String(), fmt.Sprintf("KUBERNETES_SERVICE_PORT=%d", c.pod.k.Server.Port())}
	for _, name := range c.env.names {
		env = append(env, name+"="+c.env.values[name])
	}
	return env
}

// variables are those that the container's spec names: whole objects first, then one by one,
// each of which may tell of those before it as $(NAME).
func (p *pod) variables(ctx context.Context, spec corev1.Container) (variables, error) {
	var env variables
	for _, from := range spec.EnvFrom {
		data, err := p.wholly(ctx, from)
		if err != nil {
			return env, err
		}
		for _, key := range slices.Sorted(maps.Keys(data)) {
			env.set(from.Prefix+key, data[key])
		}
	}
	for _, e := range spec.Env {
		value, there, err := expand(e.Value, env.values), true, error(nil)
		if e.ValueFrom != nil {
			value, there, err = p.value(ctx, *e.ValueFrom)
		}
		switch {
		case err != nil:
			return env, err
		case there:
			env.set(e.Name, value)
		}
	}
	return env, nil
}

// wholly is what a whole object has; nothing, where there needn't be one.
func (p *pod) wholly(ctx context.Context, from corev1.EnvFromSource) (map[string]string, error) {
	var data map[string]string
	var err error
	var optional *bool
	switch {
	case from.ConfigMapRef != nil:
		optional = from.ConfigMapRef.Optional
		data, err = p.configMapData(ctx, from.ConfigMapRef.Name)
	case from.SecretRef != nil:
		optional = from.SecretRef.Optional
		data, err = p.secretData(ctx, from.SecretRef.Name)
	}
	if apierrors.IsNotFound(err) && yes(optional) {
		return nil, nil
	}
	return data, err
}

// value is one variable's; there: it has one, as what it is taken from is there or must be.
func (p *pod) value(ctx context.Context, from corev1.EnvVarSource) (value string, there bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = p.field(from.FieldRef.FieldPath)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		of := from.ConfigMapKeyRef
		data, err := p.configMapData(ctx, of.Name)
		return p.key(data, err, "ConfigMap", of.Name, of.Key, yes(of.Optional))
	case from.SecretKeyRef != nil:
		of := from.SecretKeyRef
		data, err := p.secretData(ctx, of.Name)
		return p.key(data, err, "Secret", of.Name, of.Key, yes(of.Optional))
	}
	return "", false, errors.New("the kubelet of this world takes variables from fields of the pod, ConfigMaps and Secrets alone")
}

// key is what an object that was read has under a key.
func (p *pod) key(data map[string]string, err error, kind, name, key string, optional bool) (value string, there bool, _ error) {
	if apierrors.IsNotFound(err) && optional {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	value, there = data[key]
	if !there && !optional {
		err = fmt.Errorf("couldn't find key %s in %s %s/%s", key, kind, p.object.Namespace, name)
	}
	return value, there, err
}

func (p *pod) configMapData(ctx context.Context, name string) (map[string]string, error) {
	o, err := p.k.api.CoreV1().ConfigMaps(p.object.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return o.Data, nil
}

func (p *pod) secretData(ctx context.Context, name string) (map[string]string, error) {
	o, err := p.k.api.CoreV1().Secrets(p.object.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	data := map[string]string{}
	for key, value := range o.Data { // order: into a map
		data[key] = string(value)
	}
	return data, nil
}

func yes(b *bool) bool { return b != nil && *b }

// subscript is a field path that ends with a key: metadata.labels['app'].
var subscript = regexp.MustCompile(`^metadata\.(labels|annotations)\['([^']+)'\]$`)

// field is one of the pod's fields that the downward API tells.
func (p *pod) field(path string) (string, error) {
	if of := subscript.FindStringSubmatch(path); of != nil {
		return map[string]map[string]string{"labels": p.object.Labels, "annotations": p.object.Annotations}[of[1]][of[2]], nil
	}
	switch path {
	case "metadata.labels":
		return lines(p.object.Labels), nil
	case "metadata.annotations":
		return lines(p.object.Annotations), nil
	case "metadata.name":
		return p.object.Name, nil
	case "metadata.namespace":
		return p.object.Namespace, nil
	case "metadata.uid":
		return string(p.object.UID), nil
	case "spec.nodeName":
		return p.k.Node, nil
	case "spec.serviceAccountName":
		return p.object.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return lockstep.Address(p.k.Machine).String(), nil
	case "status.podIP", "status.podIPs":
		return lockstep.Address(p.machine).String(), nil
	}
	return "", fmt.Errorf("the pod's field %s is none that the kubelet of this world tells", path)
}

// lines are a map as a volume shows it: a line each, its value in quotes.
func lines(of map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(&b, "%s=%q\n", key, of[key])
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// hostname is what the pod takes for its name.
func (p *pod) hostname() string {
	if p.object.Spec.Hostname != "" {
		return p.object.Spec.Hostname
	}
	return p.object.Name
}

// expand replaces $(NAME) by the variable's value, if there is one; $$ is $.
func expand(text string, values map[string]string) string {
	var b strings.Builder
	for len(text) > 0 {
		if rest, ok := strings.CutPrefix(text, "$$"); ok {
			b.WriteByte('$')
			text = rest
			continue
		}
		if rest, ok := strings.CutPrefix(text, "$("); ok {
			if name, after, closed := strings.Cut(rest, ")"); closed {
				if value, known := values[name]; known {
					b.WriteString(value)
					text = after
					continue
				}
			}
		}
		b.WriteByte(text[0])
		text = text[1:]
	}
	return b.String()
}
