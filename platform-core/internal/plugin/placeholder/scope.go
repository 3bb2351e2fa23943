// SPDX-License-Identifier: Apache-2.0

package placeholder

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/ext"
)

// App is the variable app: the Application.
type App struct {
	Name      string `cel:"name"`
	Namespace string `cel:"namespace"`
	// Version of the middleware.
	Version  string `cel:"version"`
	Topology string `cel:"topology"`
	// TLS says whether the instance speaks TLS.
	TLS bool `cel:"tls"`
	// Supplied are the names of those credentials that only a user can supply, and did.
	Supplied []string `cel:"supplied"`
}

// Component is the variable component.
type Component struct {
	Name string `cel:"name"`
	// Replicas is the number of pods of each set that does not say otherwise. A pod template cannot use it: scaling would
	// replace every pod.
	Replicas int64 `cel:"replicas"`
	// Headless is the DNS name of the headless Service.
	Headless string `cel:"headless"`
	// MemoryLimit of the middleware's container in bytes; 0 when there is none.
	MemoryLimit int64 `cel:"memoryLimit"`
	// CPULimit of the middleware's container in thousandths of a core; 0 when there is none.
	CPULimit int64 `cel:"cpuLimit"`
	// ExtendedResources are the names of those that the middleware's container has, such as nvidia.com/gpu.
	ExtendedResources []string `cel:"extendedResources"`
	// Monitoring says whether the metrics of the component are wanted.
	Monitoring bool `cel:"monitoring"`
	// Logs says whether the access logs of the component go to a volume.
	Logs bool `cel:"logs"`
	// Mounts are the names of the volumes that a user gave it.
	Mounts []string `cel:"mounts"`
	// AdditionalVolumes are the paths at which volumes are mounted that a user added, in their order.
	AdditionalVolumes []string `cel:"additionalVolumes"`
	// External says whether each pod has an address for clients outside of the cluster.
	External bool `cel:"external"`
}

// Set is the variable set.
type Set struct {
	Name string `cel:"name"`
	// Replicas is the number of pods of this set.
	Replicas int64 `cel:"replicas"`
}

// Peer is a pod that the component is to have, in whichever set.
type Peer struct {
	Name    string `cel:"name"`
	Ordinal int64  `cel:"ordinal"`
	Set     string `cel:"set"`
	// FQDN is the pod's own DNS name through the headless Service.
	FQDN string `cel:"fqdn"`
}

// Pod is the variable pod, in pod templates and plans. An expression that uses it can use nothing else.
type Pod struct {
	Name    string `cel:"name"`
	Ordinal int64  `cel:"ordinal"`
	// FQDN is the pod's own DNS name through the headless Service.
	FQDN string `cel:"fqdn"`
}

// Values are what expressions see.
type Values struct {
	App       App
	Component Component
	Set       Set
	// Params in force: the plugin's defaults and what the user set.
	Params map[string]string
	// Peers are all pods that the component is to have, in order of set and ordinal. Plans alone see them: in a pod
	// template, scaling would replace every pod.
	Peers []Peer
	// Sets are all that the component is to have, in order. Plans alone see them.
	Sets []Set
}

// Scope says which variables an expression can use.
type Scope string

// Scopes.
const (
	// Defaults of parameters: app, component, set.
	Defaults Scope = "defaults"
	// Rules of parameters: app, component, set, params.
	Rules Scope = "rules"
	// Plan of the agents: app, component, set, params, peers, sets; and ${pod.name}, ${pod.ordinal}, ${pod.fqdn},
	// ${pod.zone}, ${pod.external.host} and ${pod.external.port} as they stand here, which the agents fill in.
	Plan Scope = "plan"
	// Objects that a component has once: app, component, params.
	Objects Scope = "objects"
	// PodTemplate: app, component, set, params and pod.
	PodTemplate Scope = "podtemplate"
	// Late: pod alone, once the other variables are filled in.
	Late Scope = "late"
)

// MaxPeers is the largest number of pods of a component, in all of its sets.
const MaxPeers = 1000

// MaxSets is the largest number of sets of a component.
const MaxSets = 64

// Limits of an expression.
const (
	costLimit = 100_000
	// peersCostLimit is for expressions that go through all peers.
	peersCostLimit = 2_000_000
	// maxPeersText is the longest text that such an expression gives: what Linux takes as one argument of a command.
	maxPeersText   = 128<<10 - 1
	maxTextLength  = 4096
	maxParameters  = 512
	maxExpressions = 4096
)

var variables = map[Scope][]string{
	Defaults:    {"app", "component", "set"},
	Rules:       {"app", "component", "set", "params"},
	Plan:        {"app", "component", "set", "params", "peers", "sets"},
	Objects:     {"app", "component", "params"},
	PodTemplate: {"app", "component", "set", "params", "pod"},
	Late:        {"pod"},
	Switchover:  {"source", "target"},
	Backup:      {"app", "source"},
}

// environments are made once; a cel.Env is safe for concurrent use.
var environments = map[Scope]func() *cel.Env{
	Defaults:    sync.OnceValue(func() *cel.Env { return newEnvironment(Defaults) }),
	Rules:       sync.OnceValue(func() *cel.Env { return newEnvironment(Rules) }),
	Plan:        sync.OnceValue(func() *cel.Env { return newEnvironment(Plan) }),
	Objects:     sync.OnceValue(func() *cel.Env { return newEnvironment(Objects) }),
	PodTemplate: sync.OnceValue(func() *cel.Env { return newEnvironment(PodTemplate) }),
	Late:        sync.OnceValue(func() *cel.Env { return newEnvironment(Late) }),
	Switchover:  sync.OnceValue(func() *cel.Env { return newEnvironment(Switchover) }),
	Backup:      sync.OnceValue(func() *cel.Env { return newEnvironment(Backup) }),
}

func newEnvironment(scope Scope) *cel.Env {
	types := map[string]*cel.Type{
		"app":       cel.ObjectType("placeholder.App"),
		"component": cel.ObjectType("placeholder.Component"),
		"set":       cel.ObjectType("placeholder.Set"),
		"params":    cel.MapType(cel.StringType, cel.StringType),
		"peers":     cel.ListType(cel.ObjectType("placeholder.Peer")),
		"sets":      cel.ListType(cel.ObjectType("placeholder.Set")),
		"pod":       cel.ObjectType("placeholder.Pod"),
	}
	members, member := memberTypes()
	maps.Copy(types, members)
	options := []cel.EnvOption{
		ext.NativeTypes(ext.ParseStructTags(true),
			reflect.TypeFor[App](), reflect.TypeFor[Component](), reflect.TypeFor[Set](), reflect.TypeFor[Peer](),
			reflect.TypeFor[Pod](), member),
		ext.Strings(ext.StringsVersion(4)),
		ext.Math(),
	}
	for _, name := range variables[scope] {
		options = append(options, cel.Variable(name, types[name]))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		// The options are constants of this package.
		panic(fmt.Sprintf("cannot make the environment of placeholders: %v", err))
	}
	return env
}

// known lists the variables of a scope for messages.
func known(scope Scope) string {
	list := strings.Join(variables[scope], ", ")
	if scope == Plan {
		return list + ", and pod as ${pod.name}, ${pod.ordinal}, ${pod.fqdn}, ${pod.zone}, ${pod.external.host} and " +
			"${pod.external.port} with nothing else between the braces"
	}
	return list
}

// longest bounds the texts whose length the engine limits, by their path; what is not listed is as long as a text can
// be.
var longest = map[string]uint64{
	"app.name": 38, "app.namespace": 63, "app.version": 40, "app.topology": 24, "app.supplied": 16,
	"app.supplied.@items": 24,
	"component.name":      12, "component.mounts": 8, "component.mounts.@items": 24, "component.headless": 253,
	"component.additionalVolumes": 6, "component.additionalVolumes.@items": 64,
	"set.name": 6,
	"sets":     MaxSets, "sets.@items.name": 6,
	"peers": MaxPeers, "peers.@items.name": 63, "peers.@items.set": 6, "peers.@items.fqdn": 253,
}

// sizes bounds what the cost estimate assumes of texts, lists and maps.
type sizes struct{}

func (sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	limit, ok := longest[strings.Join(node.Path(), ".")]
	switch {
	case ok:
	case node.Type() != nil && node.Type().Kind() == cel.MapKind:
		limit = maxParameters
	default:
		limit = maxTextLength
	}
	return &checker.SizeEstimate{Min: 0, Max: limit}
}

func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
