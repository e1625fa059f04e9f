// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

package launcher

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// What is told of an etcd that ends is its reason, and no frame of its stack.
func TestLastWords(t *testing.T) {
	for said, want := range map[string]string{
		"": "it says nothing",
		"{\"level\":\"warn\",\"msg\":\"a\"}\n{\"level\":\"fatal\",\"msg\":\"discovery failed\",\"error\":\"port in use\"}\n":      "discovery failed: port in use",
		"{\"level\":\"fatal\",\"msg\":\"discovery failed\",\"error\":\"8e9e05c52164694d found data inconsistency with peers\"}\n": "discovery failed: 8e9e05c52164694d found data inconsistency with peers",
		"exec format error\n": "exec format error",
		"{\"level\":\"panic\",\"msg\":\"failed to open database\"}\npanic: failed to open database\n\ngoroutine 1 [running]:\ngo.uber.org/zap/zapcore.CheckWriteAction.OnWrite(0x0?)\n\tgo.etcd.io/etcd/server/v3@v3.6.16/storage/backend.go:75 +0x1a5\n": "panic: failed to open database",
		"flag provided but not defined: -no-such-flag\nUsage:\n\n  etcd [flags]\n    Start an etcd server.\n\n  etcd grpc-proxy\n    Run the stateless etcd v3 gRPC L7 reverse proxy.\n\n":                                                                "flag provided but not defined: -no-such-flag",
		"{\"level\":\"warn\",\"msg\":\"a\"}\ninvalid value \"many\" for flag -quota-backend-bytes: parse error\nUsage:\n\n  etcd [flags]\n":                                                                                                               "invalid value \"many\" for flag -quota-backend-bytes: parse error",
		"flag provided but not defined: -x\nUsage:\n\n  etcd [flags]\nflag provided but not defined: -y\nUsage:\n\n  etcd [flags]\n":                                                                                                                      "flag provided but not defined: -y",
		"panic: it\n\nmain.go:1\nflag provided but not defined: -x\nUsage:\n\n  etcd [flags]\n":                                                                                                                                                           "flag provided but not defined: -x",
		"flag provided but not defined: -x\nUsage:\n\n  etcd [flags]\n{\"level\":\"fatal\",\"msg\":\"discovery failed\",\"error\":\"port in use\"}\n":                                                                                                     "discovery failed: port in use",
	} {
		assert.Equal(t, want, lastWords(said))
	}
}
