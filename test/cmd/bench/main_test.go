// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"slices"
	"testing"
)

func TestParseSizes(t *testing.T) {
	if got, err := parseSizes("1000, 100,100"); err != nil || !slices.Equal(got, []int{100, 1000}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, text := range []string{"", "0", "-1", "x", "100,", "5001"} {
		if got, err := parseSizes(text); err == nil {
			t.Errorf("%q is taken: %v", text, got)
		}
	}
}
