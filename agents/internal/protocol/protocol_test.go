// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"errors"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

func TestEachProtocolOfTheTableHasADriver(t *testing.T) {
	drivers := New(t.TempDir(), func(plan.SecretRef) (string, error) { return "", nil })
	for _, protocol := range plan.DriverProtocols() {
		declared := &plan.Driver{Protocol: protocol, Address: "127.0.0.1:1", Settings: map[string]string{}}
		for _, setting := range plan.DriverFor(protocol).Settings {
			declared.Settings[setting] = "x"
		}
		if opened, err := drivers.Open(declared); err != nil || opened == nil {
			t.Errorf("%s: got %v, %v", protocol, opened, err)
		}
	}
	if _, err := drivers.Open(&plan.Driver{Protocol: "memcached"}); !errors.Is(err, ErrNone) {
		t.Errorf("an unknown protocol: got %v", err)
	}
}
