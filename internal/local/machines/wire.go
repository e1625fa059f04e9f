// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

//go:build linux

package machines

import (
	"encoding/json"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// The run and a machine's host talk over a pair of SOCK_SEQPACKET sockets: one packet is one JSON value,
// and open files travel along, so a program's output goes straight to the run and a volume comes as a
// mount that nobody else can see.

// maxPacket is above the kernel's default send buffer: no packet that could be sent is cut.
const maxPacket = 256 << 10

// What a host is asked to do.
const (
	doSettle = "settle" // make the namespaces a machine; files: the volume's mount
	doStart  = "start"  // files: stdin, stdout, stderr
	doVolume = "volume" // put another volume in place; files: its mount
)

type request struct {
	ID   uint64 `json:"id"`
	Do   string `json:"do"`
	Name string `json:"name,omitempty"`
	Dir  string `json:"dir,omitempty"`
	// Shared is the directory that all machines of a lab see at the same path.
	Shared string   `json:"shared,omitempty"`
	Args   []string `json:"args,omitempty"`
	Env    []string `json:"env,omitempty"`
	// Alone is false in the fallback, where nothing may be mounted.
	Alone bool `json:"alone,omitempty"`
	// Named has the hosts file in Shared be the machine's /etc/hosts.
	Named bool `json:"named,omitempty"`
	// Bare is a machine whose volume isn't mounted: an empty directory is in its place.
	Bare bool `json:"bare,omitempty"`
}

// reply answers the request of the same ID, or, with Ended, says how what it started has ended.
type reply struct {
	ID     uint64 `json:"id"`
	Error  string `json:"error,omitempty"`
	PID    int    `json:"pid,omitempty"`
	Ended  bool   `json:"ended,omitempty"`
	Status uint32 `json:"status,omitempty"`
}

func pair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening a socket pair: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "host")
	ours, err = adopt(os.NewFile(uintptr(fds[0]), "run"))
	if err != nil {
		theirs.Close()
	}
	return ours, theirs, err
}

// adopt takes the file over; the connection is a copy that programs do not inherit.
func adopt(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("taking over a socket: %w", err)
	}
	return conn.(*net.UnixConn), nil
}

func send(c *net.UnixConn, v any, fds ...int) error {
	packet, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(packet) > maxPacket {
		return fmt.Errorf("refused to send %d bytes to a machine's host: shorten arguments and environment below %d", len(packet), maxPacket)
	}
	_, _, err = c.WriteMsgUnix(packet, unix.UnixRights(fds...), nil)
	return err
}

// receive reads one packet into v and returns the files that came with it.
func receive(c *net.UnixConn, v any) ([]*os.File, error) {
	packet, rights := make([]byte, maxPacket), make([]byte, unix.CmsgSpace(4*4))
	n, rn, _, _, err := c.ReadMsgUnix(packet, rights)
	if err != nil {
		return nil, err
	}
	files, err := unpack(rights[:rn])
	if err != nil {
		return nil, err
	}
	return files, json.Unmarshal(packet[:n], v)
}

func unpack(rights []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return files, nil
}
