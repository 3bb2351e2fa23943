// SPDX-License-Identifier: Apache-2.0

package law

// suite is where the suite's own modules are.
const suite = "github.com/zeroinfra/"

// rule says what packages may import, beside the standard library and what is below
// themselves. Paths of the suite are written without its prefix. "..." at an end
// matches everything below; {x} matches one element of a path, the same in both
// fields; "any" allows everything that is not of the suite.
type rule struct {
	of  string
	may []string
	// never wins over may.
	never []string
}

// Clients of the API server: what a pure package never sees.
var clients = []string{"k8s.io/client-go/...", "sigs.k8s.io/controller-runtime/..."}

var pure = []string{
	"platform-core/api/...", "platform-core/agentproto/...", "platform-core/sdk/cron",
	"platform-core/sdk/outcome", "platform-core/sdk/version",
	"platform-core/internal/plugin/...", "platform-core/internal/render/...",
	"platform-core/internal/rollout/...", "platform-core/internal/failover/...", "platform-core/internal/opsflow/...",
	"platform-core/internal/accept/...", "platform-core/internal/archive/...",
	"platform-core/internal/schedule/...", "platform-core/internal/maintenance/...",
	"platform-core/internal/scheduling/...",
	// What it keeps is made of its key alone.
	"platform-core/internal/lrucache",
}

// table is the import law. The first rule that matches a package holds; a package
// that none matches is a violation too, so that no folder grows outside the law.
var table = []rule{
	// The wire between operators and agents knows nothing of Kubernetes.
	{of: "platform-core/agentproto/...",
		may: []string{"platform-core/agentproto/...", "google.golang.org/protobuf/...", "google.golang.org/grpc/..."}},
	{of: "platform-core/api/...", may: []string{"k8s.io/api/...", "k8s.io/apimachinery/..."}},
	{of: "platform-core/config/..."},
	// The bootstrap alone wires the engine in.
	{of: "platform-core/sdk/operator/...",
		may: []string{"platform-core/api/...", "platform-core/sdk/...", "platform-core/internal/engine",
			"platform-core/config/...", "any"}},
	// It is a part of the engine, for tests of kinds that compile to Operations.
	{of: "platform-core/sdk/testkit/enginetest", may: []string{"platform-core/...", "any"}},
	{of: "platform-core/sdk/...", may: []string{"platform-core/api/...", "platform-core/agentproto/...",
		"platform-core/sdk/...", "platform-core/config/...", "any"}},
	// Decisions are pure: data in, data out.
	{of: "platform-core/internal/plugin/...", may: append([]string{"any"}, pure...), never: clients},
	{of: "platform-core/internal/render/...", may: append([]string{"any"}, pure...), never: clients},
	{of: "platform-core/internal/rollout/...", may: append([]string{"any"}, pure...), never: clients},
	{of: "platform-core/internal/failover/...", may: append([]string{"any"}, pure...), never: clients},
	{of: "platform-core/internal/opsflow/...", may: append([]string{"any"}, pure...), never: clients},
	{of: "platform-core/internal/archive/...", may: append([]string{"any"}, pure...), never: clients},
	{of: "platform-core/internal/accept/...", may: append([]string{"any"}, pure...), never: clients},
	{of: "platform-core/internal/schedule/...", may: append([]string{"any"}, pure...), never: clients},
	{of: "platform-core/internal/scheduling/...", may: append([]string{"any"}, pure...), never: clients},
	{of: "platform-core/internal/podstart/...", may: append([]string{"any"}, pure...), never: clients},
	{of: "platform-core/internal/maintenance/...", may: append([]string{"any"}, pure...), never: clients},
	{of: "platform-core/internal/engine/...", may: []string{"platform-core/...", "any"}},
	// A sub-reconciler knows the facts, and neither a sibling nor the controller that it is a part of.
	{of: "platform-core/internal/controller/workloadset/{x}",
		may: []string{"platform-core/...", "any"},
		never: []string{"platform-core/internal/controller/{y}", "platform-core/internal/controller/workloadset/generations",
			"platform-core/internal/controller/workloadset/pods", "platform-core/internal/controller/workloadset/primary",
			"platform-core/internal/controller/workloadset/volumes", "platform-core/internal/engine/...",
			"platform-core/sdk/operator/..."}},
	// Controllers meet through API objects only.
	{of: "platform-core/internal/controller/{x}/...",
		may: []string{"platform-core/internal/controller/{x}/...", "platform-core/...", "any"},
		never: []string{"platform-core/internal/controller/...", "platform-core/internal/engine/...",
			"platform-core/sdk/operator/..."}},
	{of: "platform-core/internal/...", may: []string{"platform-core/...", "any"},
		never: []string{"platform-core/internal/controller/...", "platform-core/internal/engine/..."}},
	{of: "platform-core/cmd/...", may: []string{"platform-core/...", "any"}},
	// Agents are small: Kubernetes in the one package that publishes status, and its client nowhere.
	{of: "agents/internal/publish/...", may: []string{"agents/internal/...", "platform-core/agentproto/...", "any"},
		never: clients},
	{of: "agents/...", may: []string{"agents/...", "platform-core/agentproto/...", "any"},
		never: []string{"k8s.io/...", "sigs.k8s.io/..."}},
	// A kind is data in, data out, and knows no other kind.
	{of: "{op}-operator/api/...", may: []string{"platform-core/api/...", "k8s.io/api/...", "k8s.io/apimachinery/..."}},
	{of: "{op}-operator/config/..."},
	{of: "{op}-operator/internal/kind",
		may: []string{"{op}-operator/internal/kind/...", "{op}-operator/api/...", "platform-core/sdk/typed"}},
	{of: "{op}-operator/internal/kind/{x}/...",
		may: []string{"{op}-operator/internal/kind/{x}/...", "{op}-operator/...", "platform-core/api/...",
			"platform-core/sdk/...", "k8s.io/api/...", "k8s.io/apimachinery/..."},
		never: []string{"{op}-operator/internal/kind/..."}},
	{of: "{op}-operator/internal/...", may: []string{"{op}-operator/api/...", "{op}-operator/internal/...",
		"platform-core/api/...", "platform-core/sdk/...", "any"}, never: []string{"{op}-operator/internal/kind/..."}},
	{of: "{op}-operator/...", may: []string{"{op}-operator/...", "platform-core/api/...", "platform-core/sdk/...", "any"}},
	// Nobody imports these; they may use all that is public.
	{of: "hack/{x}/...", may: []string{"hack/{x}/...", "platform-core/api/...", "platform-core/sdk/...",
		"platform-core/agentproto/...", "any"}},
	{of: "test/...", may: []string{"test/...", "platform-core/...", "agents/...", "{op}-operator/api/...", "any"}},
}
