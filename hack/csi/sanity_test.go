// SPDX-License-Identifier: Apache-2.0

//go:build processes && linux

package main

import (
	"path/filepath"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
)

// TestSanity runs the CSI project's own suite against the driver. It mounts, so
// it needs root.
func TestSanity(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.dial("n1")
	config := sanity.NewTestConfig()
	config.Address = s.socket("n1")
	config.ControllerAddress = s.socket("controller")
	config.TargetPath = filepath.Join(s.dir, "target")
	config.StagingPath = filepath.Join(s.dir, "staging")
	config.TestVolumeSize = 512 << 20
	config.TestVolumeExpandSize = 1 << 30
	sanity.Test(t, config)
}
