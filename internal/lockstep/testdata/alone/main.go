// SPDX-License-Identifier: Apache-2.0
// Copyright the ringproof authors.

// Command alone neither serves nor asks by HTTP.
package main

import (
	"fmt"
	"time"
)

func main() {
	began := time.Now()
	time.Sleep(time.Hour)
	fmt.Println("slept", time.Since(began))
}
