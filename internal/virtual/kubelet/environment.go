// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/ringproof/ringproof/internal/lockstep"
)

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
	for c.ctx.Err() == nil {
		env, err := c.pod.variables(c.ctx, c.spec)
		if err == nil {
			c.pod.mu.Lock()
			c.env = env
			c.pod.mu.Unlock()
			return true
		}
		c.change(func() { c.become(waiting("CreateContainerConfigError", err.Error())) })
		pause(c.ctx, resync)
	}
	return false
}

// environment is that of the container's programs.
func (c *container) environment() []string {
	server := c.pod.k.Server
	if f := c.pod.k.Proxy; f != nil && f.Image == c.called() {
		server = f.At
	}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME=" + c.pod.hostname(), "HOME=/", "TZ=UTC",
		"KUBERNETES_SERVICE_HOST=" + server.Addr().String(), fmt.Sprintf("KUBERNETES_SERVICE_PORT=%d", server.Port())}
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	for _, name := range c.env.names {
		env = append(env, name+"="+c.env.values[name])
	}
	return env
}

// variables are those that the container's spec names: whole objects first, then one by one,
// each of which may tell of those before it as $(NAME) (the kubelet's
// makeEnvironmentVariables). The error is what the kubelet says as it waits.
func (p *pod) variables(ctx context.Context, spec corev1.Container) (variables, error) {
	var env variables
	for _, from := range spec.EnvFrom {
		if err := p.whole(ctx, &env, from); err != nil {
			return env, err
		}
	}
	for _, e := range spec.Env {
		value, there, err := expand(e.Value, env.values), true, error(nil)
		if e.ValueFrom != nil {
			value, there, err = p.value(ctx, e.Name, *e.ValueFrom)
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

// whole takes all that an object has.
func (p *pod) whole(ctx context.Context, env *variables, from corev1.EnvFromSource) error {
	switch {
	case from.ConfigMapRef != nil:
		o, err := p.configMap(ctx, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		setAll(env, from.Prefix, o.Data)
		return err
	case from.SecretRef != nil:
		o, err := p.secret(ctx, from.SecretRef.Name, from.SecretRef.Optional)
		setAll(env, from.Prefix, o.Data)
		return err
	}
	return nil
}

func setAll[V string | []byte](env *variables, prefix string, data map[string]V) {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		env.set(prefix+key, string(data[key]))
	}
}

// value is what a variable is taken from; there: it is there, as it need not be.
func (p *pod) value(ctx context.Context, name string, from corev1.EnvVarSource) (value string, there bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = p.field(from.FieldRef.FieldPath)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		of := from.ConfigMapKeyRef
		o, err := p.configMap(ctx, of.Name, of.Optional)
		value, there = o.Data[of.Key]
		return value, there, cmp.Or(err, p.missing("ConfigMap", of.Name, of.Key, there, of.Optional))
	case from.SecretKeyRef != nil:
		of := from.SecretKeyRef
		o, err := p.secret(ctx, of.Name, of.Optional)
		text, there := o.Data[of.Key]
		return string(text), there, cmp.Or(err, p.missing("Secret", of.Name, of.Key, there, of.Optional))
	}
	return "", false, fmt.Errorf("the variable %s: the kubelet of this world takes variables from fields of the pod, ConfigMaps and Secrets alone; give it a value", name)
}

// missing says that an object lacks a key that it must have.
func (p *pod) missing(kind, name, key string, there bool, optional *bool) error {
	if there || ptr.Deref(optional, false) {
		return nil
	}
	return fmt.Errorf("couldn't find key %s in %s %s/%s", key, kind, p.object.Namespace, name)
}

// subscript is a field path that ends with a key: metadata.labels['app'].
var subscript = regexp.MustCompile(`^metadata\.(labels|annotations)\['([^']+)'\]$`)

// field is one of the pod's fields that the downward API tells.
func (p *pod) field(path string) (string, error) {
	p.mu.Lock()
	marks := p.marks
	p.mu.Unlock()
	if of := subscript.FindStringSubmatch(path); of != nil {
		return map[string]map[string]string{"labels": marks.labels, "annotations": marks.annotations}[of[1]][of[2]], nil
	}
	switch path {
	case "metadata.labels":
		return lines(marks.labels), nil
	case "metadata.annotations":
		return lines(marks.annotations), nil
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
	return "", fmt.Errorf("the pod's field %s is none that the kubelet of this world tells; give what is needed of it as a value", path)
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
