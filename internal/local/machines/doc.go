// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package machines makes simulated hosts out of Linux namespaces: real programs run on them, and the
// faults that are injected are real.
//
// Four kinds of process, all the same executable:
//
//	ringproof                     what the user typed; calls Sandbox
//	└─ ringproof machines-init    process 1 of the sandbox: mounts, reaps, forwards signals
//	   └─ ringproof (the run)     calls NewLab; clients live here, at the gateway address
//	      ├─ machines-host m1     process 1 of a machine: starts programs, reaps orphans
//	      │  └─ ringadm, etcd, …
//	      └─ machines-host m2
//
// The first line of main is therefore
//
//	if entered, code := machines.Enter(); entered { os.Exit(code) }
//
// Nothing can be left behind: when the outermost process dies, by SIGKILL too, machines-init reads the
// end of a pipe (and gets a parent death signal), and the kernel ends every process, mount, bridge and
// network namespace of the sandbox with its process 1.
//
// A machine has an address on the lab's bridge and a volume: a tmpfs of its own size, so a full disk is
// the kernel's own ENOSPC. The run holds the volume, not the machine: power loss ends the processes and
// keeps the files. Not modelled here: the loss of writes that were never fsynced. A tmpfs has no write
// cache to lose, so after PowerOff everything written is still there, as after a kill -9 of each
// process. Volumes live in memory: filling five of 512 MiB takes 2.5 GiB.
//
// Blocks are nftables rules in the machine's own network namespace. Block drops what arrives from an
// address, and is one-way by itself; BlockTo drops what is sent to one. They stay over a power cycle:
// the network is not the machine's.
//
// Every fault returns Evidence that it landed, or an error if it did not.
//
// Without namespaces (Sandbox says errors.ErrUnsupported, or RINGPROOF_NO_NAMESPACES=1) NewLab falls back
// to loopback addresses, plain directories and process trees. There, blocks and full volumes return an
// error that wraps errors.ErrUnsupported, and Lab.Limits says why. What a SIGKILLed fallback run leaves
// is removed by the next one, or by Clean.
package machines
