// SPDX-License-Identifier: Apache-2.0

package planfile_test

import (
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

func TestAddressOfThePodIsPutIn(t *testing.T) {
	d := pod(t)
	d.HostIP = "192.0.2.7"
	p := valid(d, 1)
	p.Process.Command = []string{"server", "${pod.external.host}:${pod.external.port}"}
	p.External = &plan.External{Pods: map[string]plan.ExternalAddress{
		d.PodName: {Port: 30100, Digest: digest(2), RestartDigest: digest(3)},
		"other-0": {Host: "other", Port: 1, Digest: digest(4), RestartDigest: digest(5)},
	}}
	here, err := d.Expand(p)
	if err != nil {
		t.Fatal(err)
	}
	if here.Process.Command[1] != "192.0.2.7:30100" || here.Digest != digest(2) || here.RestartDigest != digest(3) {
		t.Errorf("the pod runs %v with digests %s and %s", here.Process.Command, here.Digest, here.RestartDigest)
	}
	address := p.External.Pods[d.PodName]
	address.Host = "broker.example.com"
	p.External.Pods[d.PodName] = address
	if here, err = d.Expand(p); err != nil || here.Process.Command[1] != "broker.example.com:30100" {
		t.Errorf("with a host of its own the pod runs %v: %v", here, err)
	}
	delete(p.External.Pods, d.PodName)
	if _, err := d.Parse(encode(t, p)); err == nil || !strings.Contains(err.Error(), "no Service of its own") {
		t.Errorf("a plan without the address is taken: %v", err)
	}
	p.External, d.HostIP = &plan.External{Pods: map[string]plan.ExternalAddress{d.PodName: {Port: 1,
		Digest: digest(2)}}}, ""
	if _, err := d.Parse(encode(t, p)); err == nil || !strings.Contains(err.Error(), "is not in the environment") {
		t.Errorf("a plan is taken without the address of the node: %v", err)
	}
}
