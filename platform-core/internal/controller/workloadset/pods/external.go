// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
)

// withoutAddress stands for the digests of the plan in a pod that runs without the address that it has by now.
const withoutAddress = "without the address of the pod"

// lacksAddress says whether a pod cannot start, since clients outside of the cluster have no address for it yet.
func lacksAddress(p *plan.Plan, pod string) bool {
	if p.External == nil {
		return false
	}
	_, known := p.External.Pods[pod]
	return !known
}

// shareDigests puts the digests that a pod reports into those of its set. Where a pod has digests of its own, the
// rollout sees the one of the plan when the pod reports its own, and another one when the pod reports that of the plan.
func shareDigests(p *plan.Plan, pod string, said *agentreport.Report) {
	digest, restart := p.DigestsOf(pod)
	said.ConfigDigest = shared(said.ConfigDigest, digest, p.Digest)
	said.RestartDigest = shared(said.RestartDigest, restart, p.RestartDigest)
}

func shared(reported, own, ofAll string) string {
	switch reported {
	case own:
		return ofAll
	case ofAll:
		return withoutAddress
	}
	return reported
}

// externalOf is the address of a pod for clients outside of the cluster; empty where there is none.
func externalOf(p *plan.Plan, pod *corev1.Pod) string {
	if p.External == nil {
		return ""
	}
	address, known := p.External.Pods[pod.Name]
	host := cmp.Or(address.Host, pod.Status.HostIP)
	if !known || host == "" {
		return ""
	}
	return net.JoinHostPort(host, strconv.Itoa(int(address.Port)))
}
