// SPDX-License-Identifier: Apache-2.0

package plan

// HostIPVariable has the IP address of the pod's node, in containers of pods that are reached there.
const HostIPVariable = "POD_HOST_IP"

// External says where clients outside of the cluster reach each pod.
type External struct {
	// Pods by name. A pod that is not among them has no address yet, and cannot start.
	Pods map[string]ExternalAddress `json:"pods,omitempty"`
}

// ExternalAddress is the address of one pod, and the digests of the plan as that pod runs it. The digests differ from
// those of the plan where what runs depends on the address, so that another address of one pod is a change of
// configuration of that pod alone.
type ExternalAddress struct {
	// Host is a DNS name or an IP address; empty for the IP address of the pod's node (HostIPVariable).
	Host string `json:"host,omitempty"`
	// Port of the host.
	Port int32 `json:"port"`
	// Digest takes the place of Plan.Digest.
	Digest string `json:"digest"`
	// RestartDigest takes the place of Plan.RestartDigest.
	RestartDigest string `json:"restartDigest"`
}

// DigestsOf returns the digests of the plan as a pod runs it.
func (p *Plan) DigestsOf(pod string) (digest, restart string) {
	if p.External != nil {
		if own, ok := p.External.Pods[pod]; ok {
			return own.Digest, own.RestartDigest
		}
	}
	return p.Digest, p.RestartDigest
}
