// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/ringproof/ringproof/reference/api/v1alpha1"
	"github.com/ringproof/ringproof/reference/kube"
	"github.com/ringproof/ringproof/reference/ring"
)

// course is which releases a ring goes by. Whether an upgrade is under way the set says,
// by its annotations, and the records of members, whose turn has come or hasn't; of an
// edit alone nothing is done.
type course struct {
	version  ring.Version // what ring.Next brings the members to
	from     ring.Version // what they ran before; "": no other was ever asked for
	template ring.Version // what pods are made with from now on
	checked  ring.Version // what the nodes of members are to try first; "": nothing
	wait     string       // why what is asked for isn't begun yet
	refused  string       // why it isn't begun at all
}

// course decides it. The template changes with the first member whose turn has come, and
// not with the edit: a pod that dies before, for whatever reason, comes back as it was.
func (s Seen) course() course {
	asked, runs := s.asked(), s.version()
	c := course{version: runs, from: s.from(), template: runs}
	switch {
	case asked == runs:
	case s.Set != nil && s.static():
		c.refused = fmt.Sprintf("%s is asked for, and a ring without the launcher isn't upgraded: set spec.features.etcdLauncher to true, or spec.version back to %s", asked, runs[1:])
	case s.adopting():
		c.wait = fmt.Sprintf("%s is asked for, and not all members have a launcher yet", asked)
	case s.Identity == nil && !s.bootstrapped():
		c.version, c.template = asked, asked // pods without a member are made anew
	case s.unmade():
		c.wait = fmt.Sprintf("%s is asked for, and pods are to be made first with what else is", asked)
	case asked == c.from && asked.Compare(runs) < 0:
		s.takeBack(&c)
	case runs.Hop(asked) != "":
		c.refused = fmt.Sprintf("%s is asked for, and the pods run %s: %s; %s", asked, runs, runs.Hop(asked), instead(runs, asked))
	case s.behind(runs, asked) != "":
		c.wait = fmt.Sprintf("%s is asked for, and %s doesn't run %s yet", asked, s.behind(runs, asked), runs)
	default:
		c.checked = asked
		if c.wait, c.refused = s.tried(asked); c.wait == "" && c.refused == "" {
			c.version, c.from = asked, runs
		}
	}
	if c.refused == "" && c.version == asked && s.begun(asked) {
		c.template = asked
	}
	return c
}

// instead is which release may be asked for in the place of one that the pods don't come to.
// One edit goes a minor on or back (the CRD's rule): two in a row have left one out.
func instead(runs, asked ring.Version) string {
	if between := runs.Between(asked); between != "" {
		return "set spec.version to a release of " + between + " first"
	}
	return fmt.Sprintf("set spec.version back to %s", runs[1:])
}

// own are the releases of slots without a member: whoever is added there has what its pod
// has, whatever the others have come to.
func (c course) own(s Seen) map[string]ring.Version {
	all := map[string]ring.Version{}
	held, _ := s.held()
	for _, slot := range s.Slots {
		if !held[slot.Ordinal] {
			all[slot.Name] = c.template
		}
	}
	return all
}

// takeBack has pods be made as before, if the upgrade has come to no member that serves,
// nor to all: the ring's data may be of the later release by then.
func (s Seen) takeBack(c *course) {
	runs := c.template
	held, listed := s.held()
	before := slices.ContainsFunc(s.Slots, func(slot Slot) bool {
		return (held[slot.Ordinal] || !listed) && !slot.ending() && slot.release() == c.from
	})
	serves := slices.IndexFunc(s.Slots, func(slot Slot) bool { return slot.release() == runs && (slot.ready() || s.serves(slot)) })
	switch told := s.told(runs); {
	case serves >= 0:
		c.refused = fmt.Sprintf("%s is asked for, and %s serves with %s: a ring isn't taken back; set spec.version to %s", c.from, s.Slots[serves].Name, runs, runs[1:])
	case told > 1: // the second was told once the first had served
		c.refused = fmt.Sprintf("%s is asked for, and %d members were told to run %s: a ring isn't taken back; set spec.version to %s", c.from, told, runs, runs[1:])
	case !before:
		c.refused = fmt.Sprintf("%s is asked for, and all members' pods have %s: a ring isn't taken back; set spec.version to %s", c.from, runs, runs[1:])
	default:
		c.version, c.template = c.from, c.from
	}
}

func (s Seen) asked() ring.Version { return ring.Version("v" + s.Ring.Spec.Version) }

// from is what pods were made with before the set's release; "": they never were with
// another.
func (s Seen) from() ring.Version { return s.made().From }

// serves reports whether the slot's member was heard a turn ago, of a ring that is still read. A
// pod that is slow to answer twice isn't ready, and its member serves.
func (s Seen) serves(slot Slot) bool { return s.View != nil && s.Heard[slot.Name] }

// behind is a member's pod that has neither of two releases; "": none has. One that was not
// taken back in time has the later one when that is asked for again.
func (s Seen) behind(runs, asked ring.Version) string {
	held, _ := s.held()
	for _, slot := range s.Slots {
		if has := slot.release(); held[slot.Ordinal] && slot.Pod != nil && has != runs && has != asked {
			return slot.Name
		}
	}
	return ""
}

// begun reports whether the turn of a member has come to run the release.
func (s Seen) begun(release ring.Version) bool { return s.told(release) > 0 }

// told counts the members that are to run the release, by their records.
func (s Seen) told(release ring.Version) (n int) {
	if s.View == nil {
		return 0
	}
	for _, m := range s.View.RingMembers() {
		if m.Release == release {
			n++
		}
	}
	return n
}

const releaseFlag = "--version="

// release is the one that the slot's pod was made with; "": there is no pod.
func (s Slot) release() ring.Version {
	if s.Pod == nil {
		return ""
	}
	for _, c := range s.Pod.Spec.Containers {
		if c.Name != kube.MemberContainer {
			continue
		}
		for _, word := range c.Command {
			if v, is := strings.CutPrefix(word, releaseFlag); is {
				return ring.Version(v)
			}
		}
		return ring.Version(c.Image[strings.LastIndex(c.Image, ":")+1:])
	}
	return ""
}

// tried says how far the nodes of the ring's members have come with a release that is to
// be: a node that can't pull it, or can't run it, is found before anybody is restarted.
func (s Seen) tried(release ring.Version) (wait, refused string) {
	held, listed := s.held()
	if !listed {
		return fmt.Sprintf("%s is asked for, and which pods have members is not known", release), ""
	}
	for _, slot := range s.Slots {
		if !held[slot.Ordinal] {
			continue
		}
		switch done, why := slot.tried(s.imageOf(release)); {
		case why != "":
			return "", fmt.Sprintf("%s is asked for, and the node of %s does not run it: %s; nobody is upgraded before every node does; or set spec.version back to %s", release, slot.Name, why, s.version()[1:])
		case !done:
			wait = cmp.Or(wait, fmt.Sprintf("%s is asked for, and the node of %s has not tried it yet", release, slot.Name))
		}
	}
	return wait, ""
}

func (s Seen) imageOf(release ring.Version) string { return s.Ring.Spec.Image + ":" + string(release) }

// tried reports whether the slot's node has run an image, or why it doesn't.
func (s Slot) tried(image string) (done bool, why string) {
	if !s.triesHere(image) {
		return false, ""
	}
	if s.Check.Status.Phase == corev1.PodSucceeded {
		return true, ""
	}
	for _, c := range s.Check.Status.ContainerStatuses {
		switch end, waits := c.State.Terminated, c.State.Waiting; {
		case end != nil && end.ExitCode != 0:
			return false, fmt.Sprintf("it ended with %d: %s", end.ExitCode, strings.TrimSpace(end.Message))
		case waits != nil && slices.Contains(unpulled, waits.Reason):
			return false, waits.Reason + ": " + waits.Message
		}
	}
	if s.Check.Status.Phase == corev1.PodFailed {
		return false, cmp.Or(s.Check.Status.Reason, "it failed") + ": " + s.Check.Status.Message
	}
	return false, ""
}

// unpulled are the kubelet's reasons for a container that doesn't begin.
var unpulled = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerError", "RunContainerError"}

// triesHere reports whether the slot's check is of the image, on the node that the pod is
// on by now.
func (s Slot) triesHere(image string) bool {
	return s.Check != nil && s.Pod != nil && s.Check.DeletionTimestamp == nil && s.Check.Spec.NodeName == s.Pod.Spec.NodeName && s.Check.Annotations[kube.ImagesAnnotation] == image
}

// checkAgain is how long a check stands that has failed, as this process has seen it: by a clock that
// is a minute ahead of the API server's it went as soon as it failed, and by one behind never.
const checkAgain = time.Minute

// failed is by what name it is counted for how long a check has failed.
func failed(check *corev1.Pod) string { return "check " + string(check.UID) }

// check has the nodes of members try the release that is to be, and leaves no check behind,
// be its node there or not: one that nobody ends would keep its slot from trying on another.
func (g *Ground) check(s Seen, patience time.Duration) {
	held, _ := s.held()
	for _, slot := range s.Slots {
		wanted := g.course.checked != "" && held[slot.Ordinal] && slot.Pod != nil && slot.Pod.Spec.NodeName != "" && slot.Pod.DeletionTimestamp == nil
		image := s.imageOf(g.course.checked)
		switch _, why := slot.tried(image); {
		case slot.Check == nil && wanted:
			g.Changes = append(g.Changes, creation(releaseCheck(s.Ring, slot, image), "its node is to try the release first"))
		case slot.Check == nil:
		case s.gone(slot.Check.Spec.NodeName, patience):
			force := deletion(slot.Check, "its node is gone")
			force.Force = true
			g.Changes = append(g.Changes, force)
		case slot.Check.DeletionTimestamp != nil:
		case !wanted:
			g.Changes = append(g.Changes, deletion(slot.Check, "nothing is left to try"))
		case !slot.triesHere(image), why != "" && s.Quiet[failed(slot.Check)] > checkAgain:
			g.Changes = append(g.Changes, deletion(slot.Check, "it is to be tried anew"))
		}
	}
}

// releaseCheck runs etcd --version from an image, on a slot's node.
func releaseCheck(r *v1alpha1.EtcdRing, slot Slot, image string) *corev1.Pod {
	n := namesOf(r)
	p := &corev1.Pod{ObjectMeta: owned(r, n.Check(slot.Name)), Spec: corev1.PodSpec{
		NodeName: slot.Pod.Spec.NodeName, ServiceAccountName: n.Set(), RestartPolicy: corev1.RestartPolicyNever, Tolerations: r.Spec.Scheduling.Tolerations,
		AutomountServiceAccountToken: ptr.To(false), SecurityContext: nobodys(), TerminationGracePeriodSeconds: ptr.To[int64](1),
		Containers: []corev1.Container{{Name: kube.MemberContainer, Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{kube.Etcd, "--version"},
			SecurityContext: confined(), TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError}}}}
	p.Labels, p.Annotations = n.Labels(kube.CheckPart), map[string]string{kube.ImagesAnnotation: image}
	return p
}

// outdated is why the pod of a slot is made anew at once; "": it isn't. Members are
// restarted in their turn; but nothing is lost where there is none, or where one doesn't
// serve with a release that was taken back. The set is to make another than it is: while the
// API server refuses what it is to be changed to, each pod that was deleted came again as before.
func (s Seen) outdated(slot Slot, c course, free bool) string {
	has, makes := slot.release(), s.Set != nil && s.version() == c.template
	switch {
	case has == "" || slot.Pod.DeletionTimestamp != nil:
		return ""
	case s.edited(slot) != "" && s.stuck(slot):
		return s.edited(slot) + ", and it runs nothing"
	case s.stuck(slot) && s.pulls(slot) != "":
		return "it runs nothing, and is to have " + s.pulls(slot)
	case free && slot.static() && s.made().Launchers:
		return "it has no launcher, and no member"
	case has == c.template || !makes:
		return ""
	case free:
		return fmt.Sprintf("it has %s, and no member", has)
	case c.from == c.template && has.Compare(c.template) > 0 && !slot.ready() && !s.serves(slot):
		return fmt.Sprintf("its member doesn't serve with %s, which was taken back", has)
	}
	return ""
}

// pulls is an image that the slot's pod is to have in the place of another, which may be none
// that anybody has; "": it has what it is to have. Its release is left out: members come to
// another in their turn.
func (s Seen) pulls(slot Slot) string {
	if s.Set == nil {
		return ""
	}
	was, is := slot.Pod.Annotations[kube.ImagesAnnotation], s.Set.Spec.Template.Annotations[kube.ImagesAnnotation]
	switch {
	case was == is && is != "":
		return ""
	case was != "" && is != "":
		return is
	}
	template := s.Set.Spec.Template.Spec
	for _, c := range slices.Concat(slot.Pod.Spec.InitContainers, slot.Pod.Spec.Containers) {
		for _, to := range slices.Concat(template.InitContainers, template.Containers) {
			if c.Name != to.Name || c.Image == to.Image {
				continue
			}
			if c.Name != kube.MemberContainer || repository(c.Image) != repository(to.Image) {
				return to.Image
			}
		}
	}
	return ""
}

// imagesOf are the images that a pod is to have, without the tag of etcd's. They are compared as they
// were asked for: of a pod whose image a webhook had rewritten, to a mirror or to a digest, it was
// said that it was to have another, and it was deleted as soon as it was made.
func imagesOf(pod corev1.PodSpec) string {
	var all []string
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		image := c.Image
		if c.Name == kube.MemberContainer {
			image = repository(image)
		}
		all = append(all, image)
	}
	return strings.Join(all, " ")
}

// repository is an image without its tag.
func repository(image string) string {
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[:i]
	}
	return image
}

// commands are what a person should consider. What ringadm's own store is asked for an
// EtcdRing is; and a member that doesn't come up is replaced, as its pod has no way back of its own.
func (x *automation) commands(s Seen, d ring.Decision) []string {
	if d.Back != "" {
		return []string{fmt.Sprintf(`kubectl -n %s patch etcdring %s --type merge -p '{"spec":{"version":"%s"}}'`, s.Ring.Namespace, s.Ring.Name, d.Back[1:])}
	}
	if i := slices.IndexFunc(x.observed.Members, func(m ring.Member) bool { return m.ID == d.Stuck }); d.Stuck != 0 && i >= 0 {
		if at, ok := namesOf(s.Ring).Ordinal(x.observed.Members[i].Machine); ok {
			return []string{fmt.Sprintf("kubectl -n %s delete pvc %s", s.Ring.Namespace, namesOf(s.Ring).Claim(at))}
		}
	}
	return d.Commands
}
