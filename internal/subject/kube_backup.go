// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package subject

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringproof/ringproof/config"
	"github.com/ringproof/ringproof/internal/kubectl"
	"github.com/ringproof/ringproof/internal/trial"
)

// Snapshot makes a job of what config/samples/backup.yaml has made every night, and takes what that
// has written from its volume.
func (p *Pods) Snapshot(ctx context.Context, file string, _ trial.Run) (string, error) {
	p.mu.Lock()
	p.backups++
	name := fmt.Sprintf("%s-backup-%d", p.ring.Ring, p.backups)
	p.mu.Unlock()
	claim, job, err := p.backup(name)
	if err != nil {
		return "", err
	}
	defer p.tidy(context.WithoutCancel(ctx), job, claim)
	if err := errors.Join(p.create(ctx, claim), p.create(ctx, job)); err != nil {
		return "", err
	}
	wrote, err := p.finished(ctx, job)
	if err != nil {
		return "", err
	}
	return "job " + job.Name, p.fetch(ctx, claim, wrote, file)
}

const tidying = 5 * time.Second // how long the API server has to take away what made a backup

// tidy takes the job and its volume away, also when nobody waits for them any more. Where the API
// server is out they stay, and the backup is none the worse.
func (p *Pods) tidy(ctx context.Context, all ...kubeclient.Object) {
	ctx, cancel := context.WithTimeout(ctx, tidying)
	defer cancel()
	for _, o := range all {
		_ = p.api.Delete(ctx, o, kubeclient.PropagationPolicy(metav1.DeletePropagationBackground))
	}
}

// backup is the volume and the job of one backup.
func (p *Pods) backup(name string) (*corev1.PersistentVolumeClaim, *batchv1.Job, error) {
	claim, nightly, err := config.Backup()
	if err != nil {
		return nil, nil, err
	}
	claim.Namespace, claim.Name, claim.Spec.StorageClassName = p.ring.Namespace, name, ptr.To(podsClass)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: p.ring.Namespace, Name: name}, Spec: nightly.Spec.JobTemplate.Spec}
	for i := range job.Spec.Template.Spec.Volumes {
		if v := job.Spec.Template.Spec.Volumes[i].PersistentVolumeClaim; v != nil {
			v.ClaimName = name
		}
	}
	return claim, job, nil
}

// finished waits for the job to end, and returns its pod that has succeeded.
func (p *Pods) finished(ctx context.Context, job *batchv1.Job) (wrote *corev1.Pod, err error) {
	for ; ctx.Err() == nil; time.Sleep(time.Second) {
		now := &batchv1.Job{}
		if err = p.api.Get(ctx, kubeclient.ObjectKeyFromObject(job), now); err != nil {
			continue
		}
		has := func(of batchv1.JobConditionType) bool {
			return slices.ContainsFunc(now.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == of && c.Status == corev1.ConditionTrue })
		}
		switch {
		case has(batchv1.JobFailed):
			return nil, fmt.Errorf("job %s has failed %d times", job.Name, now.Status.Failed)
		case has(batchv1.JobComplete):
			return p.succeeded(ctx, now)
		}
	}
	return nil, fmt.Errorf("job %s has not ended: %w", job.Name, errors.Join(ctx.Err(), err))
}

// succeeded is the job's pod that has.
func (p *Pods) succeeded(ctx context.Context, job *batchv1.Job) (*corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := p.api.List(ctx, pods, kubeclient.InNamespace(job.Namespace), kubeclient.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return nil, err
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodSucceeded {
			return &pod, nil
		}
	}
	return nil, fmt.Errorf("job %s is complete, and none of its %d pods has succeeded", job.Name, len(pods.Items))
}

// fetch copies what the pod has written on the claim's volume.
func (p *Pods) fetch(ctx context.Context, claim *corev1.PersistentVolumeClaim, pod *corev1.Pod, file string) error {
	if err := p.api.Get(ctx, kubeclient.ObjectKeyFromObject(claim), claim); err != nil {
		return err
	}
	volume := &corev1.PersistentVolume{}
	if err := p.api.Get(ctx, kubeclient.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
		return err
	}
	path := kubectl.VolumePath(volume)
	if path == "" {
		return fmt.Errorf("volume %s is on no node", volume.Name)
	}
	dir, err := p.volume(pod.Spec.NodeName, path)
	if err != nil {
		return err
	}
	from, err := os.Open(filepath.Join(dir, pod.Name+".db"))
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
