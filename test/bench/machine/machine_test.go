// SPDX-License-Identifier: Apache-2.0

package machine

import "testing"

func TestField(t *testing.T) {
	text := []byte("processor\t: 0\nmodel name\t: A: B\nmodel name\t: C\n")
	if got := field(text, "model name"); got != "A: B" {
		t.Errorf("got %q", got)
	}
	if got := field(text, "model"); got != "unknown" {
		t.Errorf("got %q", got)
	}
}

func TestVersion(t *testing.T) {
	for out, want := range map[string]string{"etcd Version: 3.6.1\nGit SHA: x\n": "3.6.1",
		"Kubernetes v1.34.4\n": "v1.34.4", "": "unknown"} {
		if got := version([]byte(out)); got != want {
			t.Errorf("%q gives %q, want %q", out, got, want)
		}
	}
}
