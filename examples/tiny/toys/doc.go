// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Package toys shows where one's own things go: a fault, an operation, a subject and a
// world, each a file here and a line in cmd/toys. Nothing of ringproof is changed for them.
package toys
