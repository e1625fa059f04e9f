// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package checks

import (
	"github.com/ringproof/ringproof"
)

// noKeyPrinted: a launcher that logs its configuration as it starts works as well as any, and so
// does an operator that keeps it in a ConfigMap. Logs and such objects are read by more people than
// keys are for, and kept for longer.
var noKeyPrinted = Check{
	Name:   "no-key-printed",
	Claim:  "Neither the subject nor its etcds print a private key, and on Kubernetes no object but a Secret has one.",
	Source: "CWE-532, insertion of sensitive information into a log file; Kubernetes: a ConfigMap does not provide secrecy",
	Judge: func(h *ringproof.History, _ Values) ringproof.Finding {
		lines, unread := 0, []string(nil)
		for _, o := range h.Evidence.Outputs {
			if o.Key != "" {
				return with(fail(ringproof.Forever, "expected no private key in what is printed, saw one on %s", o.Machine), o.Key)
			}
			if o.Err != "" {
				unread = append(unread, o.Machine+": "+o.Err)
			}
			lines += o.Lines
		}
		if o := h.Evidence.Objects; o != nil {
			if len(o.Keys) > 0 {
				return with(fail(ringproof.Forever, "expected no private key in an object that is no Secret, saw one in %s", o.Keys[0]), o.Keys[1:]...)
			}
			if o.Err != "" {
				unread = append(unread, "objects: "+o.Err)
			}
		}
		for _, m := range h.Evidence.Mute {
			unread = append(unread, m+": nothing was found that its etcd printed")
		}
		if lines == 0 || len(unread) > 0 {
			return with(unknown("%d lines of output were looked through, and that of %d machines was not", lines, len(unread)), unread...)
		}
		return pass("%s of output, none with a private key", ringproof.Counted(lines, "line"))
	},
	suits: func(p ringproof.Plan) bool { return p.Ring.Security == "tls" }, // in a disaster too
}
