// SPDX-License-Identifier: Apache-2.0

package agentv1

// CapabilityHooks says that the plan's process.hooks are heeded.
const CapabilityHooks = "hooks"

// CapabilityMemory says that ProcessService.GetStatus tells ProcessStatus.memory_bytes.
const CapabilityMemory = "memory"

// ProcessCapabilityNames are all that an agent of this version can, in order: its answer to
// ProcessService.Capabilities.
func ProcessCapabilityNames() []string {
	return []string{CapabilityHooks, CapabilityMemory}
}

// CapabilityHold says that OpsService serves Hold and Release.
const CapabilityHold = "hold"

// OpsCapabilityNames are all that an ops agent of this version can that came after the first one, in order:
// CapabilitiesResponse.names.
func OpsCapabilityNames() []string { return []string{CapabilityHold} }
