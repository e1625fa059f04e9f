// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package addons

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// Provisioner is the name by which a StorageClass asks for disks: that of the provisioner
// which kind's nodes have.
const Provisioner = "rancher.io/local-path"

// Class is the StorageClass of disks whose files stay when their volumes go, so that
// whoever judges a run can read them.
const Class = "ringproof"

// class makes it.
func (d *disks) class(ctx context.Context) error {
	_, err := d.api.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: Class}, Provisioner: Provisioner,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer), ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimRetain)}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// selected is the annotation by which the scheduler says where a claim's pod will run.
const selected = "volume.kubernetes.io/selected-node"

// disks makes a directory for each claim, on the node where its pod is to run.
type disks struct {
	Options
	api kubernetes.Interface
}

func (d *disks) watch(ctx context.Context, all informers.SharedInformerFactory) error {
	claims := on(all.Core().V1().PersistentVolumeClaims().Informer(), func(o any) {
		d.until(ctx, "making a volume", func() error { return d.provision(ctx, o.(*corev1.PersistentVolumeClaim)) })
	})
	volumes := on(all.Core().V1().PersistentVolumes().Informer(), func(o any) {
		d.until(ctx, "reclaiming a volume", func() error { return d.reclaim(ctx, o.(*corev1.PersistentVolume)) })
	})
	return errors.Join(claims, volumes)
}

// until tries, once a second, until it went well.
func (d *disks) until(ctx context.Context, what string, try func() error) {
	for ctx.Err() == nil {
		err := try()
		if err == nil {
			return
		}
		complain(what, err)
		time.Sleep(time.Second)
	}
}

// provision makes the volume of a claim whose pod has a node.
func (d *disks) provision(ctx context.Context, c *corev1.PersistentVolumeClaim) error {
	node := c.Annotations[selected]
	if node == "" || c.Spec.VolumeName != "" || c.DeletionTimestamp != nil || c.Spec.StorageClassName == nil {
		return nil
	}
	class, err := d.api.StorageV1().StorageClasses().Get(ctx, *c.Spec.StorageClassName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && class.Provisioner != Provisioner {
		return nil
	}
	if err != nil {
		return err
	}
	name := "pvc-" + string(c.UID)
	dir := filepath.Join(d.Volumes, name)
	if err := d.make(dir); err != nil {
		return err
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": Provisioner}},
		Spec: corev1.PersistentVolumeSpec{Capacity: c.Spec.Resources.Requests, AccessModes: c.Spec.AccessModes, StorageClassName: class.Name,
			PersistentVolumeReclaimPolicy: *class.ReclaimPolicy,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}},
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}}}
	_, err = d.api.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// make makes the directory: where that can be had, a filesystem of its own.
func (d *disks) make(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if d.VolumeBytes == 0 {
		return nil
	}
	if err := unix.Mount("ringproof", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=0777,size=%d", d.VolumeBytes)); err != nil {
		return errors.Join(fmt.Errorf("making a filesystem at %s: %w", dir, err), os.Remove(dir))
	}
	return nil
}

// reclaim deletes a volume that was released, if that is its policy, and what was on it.
func (d *disks) reclaim(ctx context.Context, v *corev1.PersistentVolume) error {
	if v.Status.Phase != corev1.VolumeReleased || v.DeletionTimestamp != nil || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || v.Spec.HostPath == nil {
		return nil
	}
	if d.VolumeBytes > 0 {
		_ = unix.Unmount(v.Spec.HostPath.Path, unix.MNT_DETACH)
	}
	if err := os.RemoveAll(v.Spec.HostPath.Path); err != nil {
		return err
	}
	err := d.api.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
