// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTolerations(t *testing.T) {
	for says, one := range map[string]corev1.Toleration{
		"":                                  {Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists},
		"has operator Exists and a value":   {Key: "a", Operator: corev1.TolerationOpExists, Value: "b"},
		"one has no key":                    {Value: "b"},
		"it must be Exists or Equal":        {Key: "a", Operator: "In"},
		"it must be NoSchedule":             {Key: "a", Effect: "Never"},
		"they need effect NoExecute":        {Key: "a", TolerationSeconds: new(int64(1))},
		`key "a b" has a key that no taint`: {Key: "a b", Operator: corev1.TolerationOpExists},
		`has value "b!", which no taint`:    {Key: "a", Value: "b!"},
	} {
		// What comes before the wrong one is fine.
		fine := []corev1.Toleration{{Key: "a", Value: "b", Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: new(int64(1))}, {Operator: corev1.TolerationOpExists}}
		got := Tolerations(append(fine, one))
		if (got == "") != (says == "") || !strings.Contains(got, says) {
			t.Errorf("%+v: it says %q, want %q", one, got, says)
		}
	}
}

func TestNodeSelectorAndPriorityClass(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{NodeSelector(nil), ""},
		{NodeSelector(map[string]string{"disk": "fast", "example.com/zone": ""}), ""},
		{NodeSelector(map[string]string{"disk": "fast", "z b": "c"}), "has z b=c, which is no label"},
		{NodeSelector(map[string]string{"disk": "!"}), "has disk=!, which is no label"},
		{PriorityClass(""), ""},
		{PriorityClass("system-node-critical"), ""},
		{PriorityClass("A B"), `is "A B", which is no name of a PriorityClass`},
	} {
		if (c.got == "") != (c.want == "") || !strings.Contains(c.got, c.want) {
			t.Errorf("it says %q, want %q", c.got, c.want)
		}
	}
}
