// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Authority says who decides which pod may write.
type Authority string

// Authorities.
const (
	AuthorityEngine     Authority = "engine"
	AuthorityMiddleware Authority = "middleware"
)

// Components is the content of components.yaml.
type Components struct {
	Components  []Component  `json:"components"`
	Topologies  []Topology   `json:"topologies"`
	Credentials []Credential `json:"credentials,omitempty"`
	Binding     *Binding     `json:"binding,omitempty"`
	Entities    []Entity     `json:"entities,omitempty"`
}

// Component is one binary of the middleware.
type Component struct {
	// Name, at most 12 characters.
	Name string `json:"name"`
	// Authority over who writes.
	Authority Authority `json:"authority"`
	// PodTemplate is the key of its pod template, without .yaml.
	PodTemplate string `json:"podTemplate"`
	// Container of the pod template that runs the process.
	Container string `json:"container"`
	// Images by version of the middleware; one for each supported version.
	Images map[string]string `json:"images"`
	// Sets is how many sets the component may have. Default exactly 1, named "main"; more are named by the user, or "0",
	// "1" and so on.
	Sets *Range `json:"sets,omitempty"`
	// Replicas of each set.
	Replicas Range `json:"replicas"`
	// Scaling: Online (the default), Sets when more sets can come and nothing else can change, or Fixed when replicas and
	// sets cannot change once they are made.
	Scaling Scaling `json:"scaling,omitempty"`
	// PodManagementPolicy of the sets. Default Parallel.
	PodManagementPolicy platformv1.PodManagementPolicy `json:"podManagementPolicy,omitempty"`
	// RestartStrategy: Rolling (the default), or AllAtOnce when the processes of all pods have to be started with the same
	// configuration.
	RestartStrategy platformv1.RestartStrategy `json:"restartStrategy,omitempty"`
	// Needs are components of the same topology that have to be ready before this one is started.
	Needs []string `json:"needs,omitempty"`
	// Resources of the container when the user sets none.
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// Volumes that each pod has of its own.
	Volumes []Volume `json:"volumes,omitempty"`
	// Mounts are volumes that a user can give its pods beside these: shared by pods, or read only.
	Mounts []Mount `json:"mounts,omitempty"`
	// Ports of the container.
	Ports []Port `json:"ports"`
	// Roles that the probe may report.
	Roles []Role `json:"roles,omitempty"`
	// Services in front of the pods. A headless one named "<app>-<component>-headless" is always made.
	Services []Service `json:"services,omitempty"`
	// PodServices says that each pod can have a Service of its own, by which clients outside of the cluster reach just
	// that pod; nil when none can.
	PodServices *PodServices `json:"podServices,omitempty"`
	// Routes lead clients outside of the cluster to the Services by HTTP.
	Routes []Route `json:"routes,omitempty"`
	// Permissions are what the process may read through the API of Kubernetes; it has no token where there are none.
	Permissions []Permission `json:"permissions,omitempty"`
	// Process, Files and Probe become the agent plan. Strings in them may hold placeholders.
	Process plan.Process `json:"process"`
	Files   []File       `json:"files,omitempty"`
	Probe   Probe        `json:"probe"`
	// TLS says that the component can speak TLS; nil when it cannot.
	TLS *TLS `json:"tls,omitempty"`
	// Actions that can be run in its pods. Commands and variables may hold placeholders.
	Actions []plan.Action `json:"actions,omitempty"`
	// Backups are the methods by which its data is backed up.
	Backups []BackupMethod `json:"backups,omitempty"`
	// Archive says how it is told where it keeps what it archives; nil for one that cannot keep that in a
	// BackupRepository.
	Archive *Archive `json:"archive,omitempty"`
	// Driver has the ops agent speak the middleware's own protocol; nil when it does not.
	Driver *Driver `json:"driver,omitempty"`
	// Switchover says how a pod that takes writes hands over; nil when it cannot.
	Switchover *Switchover `json:"switchover,omitempty"`
	// Election says how members report the primary that they elected; nil where the engine goes by what each says of
	// itself.
	Election *Election `json:"election,omitempty"`
	// Failover says how another pod becomes the primary; nil when none can.
	Failover *Failover `json:"failover,omitempty"`
	// Membership says who brings the pods to be what they are to each other; nil where that needs nobody.
	Membership *Membership `json:"membership,omitempty"`
	// Monitoring says where its metrics are; nil when it has none.
	Monitoring *Monitoring `json:"monitoring,omitempty"`
	// Logs says where it writes access logs; nil when it has none that could go to a volume.
	Logs *Logs `json:"logs,omitempty"`
	// Parameters is the key of its parameter set; empty when there is nothing to set.
	Parameters string `json:"parameters,omitempty"`
	// Credentials that are mounted into its pods, by name.
	Credentials []string `json:"credentials,omitempty"`
	// Conditions of the instance that follow from what its pods report.
	Conditions []PodCondition `json:"conditions,omitempty"`
}

// Switchover has a primary hand over to another pod before it is taken out.
type Switchover struct {
	// Action that is run in the pod that hands over.
	Action string `json:"action"`
	// Roles whose pods can take over.
	Roles []string `json:"roles"`
	// When is a CEL expression over source and target that gives true for a pod that can take over; always by default.
	When string `json:"when,omitempty"`
	// Parameters of the action by name. Placeholders see source and target.
	Parameters map[string]string `json:"parameters,omitempty"`
}

// TLS of a component that can speak it.
type TLS struct {
	plan.TLS
	// ChangePolicy says when TLS can be turned on or off, or get another issuer. Default TLSChangeOnline.
	ChangePolicy TLSChangePolicy `json:"changePolicy,omitempty"`
}

// TLSChangePolicy says when what a component trusts can change.
type TLSChangePolicy string

// Values of TLSChangePolicy.
const (
	// TLSChangeOnline: pod after pod.
	TLSChangeOnline TLSChangePolicy = "Online"
	// TLSChangeStopped: only while no pod runs, since members before and after the change do not talk to each other.
	TLSChangeStopped TLSChangePolicy = "Stopped"
	// TLSChangeStoppedOrSinglePod: while no pod runs, or where there is one pod before and after the change, which has no
	// peers.
	TLSChangeStoppedOrSinglePod TLSChangePolicy = "StoppedOrSinglePod"
)

// Scaling says whether the number of pods can change.
type Scaling string

// Values of Scaling.
const (
	ScalingOnline Scaling = "Online"
	// ScalingSets: sets are added, each with the pods that it is made with.
	ScalingSets  Scaling = "Sets"
	ScalingFixed Scaling = "Fixed"
)

// Scales says whether the number of pods of a set can change once it is made.
func (c *Component) Scales() bool { return c.Scaling == "" || c.Scaling == ScalingOnline }

// Range of a number of pods or sets.
type Range struct {
	Default int32 `json:"default"`
	Min     int32 `json:"min"`
	Max     int32 `json:"max"`
	// Step from Min to the numbers that are allowed: with 2 and a Min of 1, odd ones. Default 1.
	Step int32 `json:"step,omitempty"`
}

// Allows says whether a number is one of the range.
func (r Range) Allows(n int32) bool {
	return n >= r.Min && n <= r.Max && (n-r.Min)%max(r.Step, 1) == 0
}

// String says what the range takes, for example "1 to 5" or "1, 3 or 5".
func (r Range) String() string {
	const listed = 4
	switch {
	case r.Min == r.Max:
		return fmt.Sprintf("exactly %d", r.Min)
	case r.Step <= 1:
		return fmt.Sprintf("%d to %d", r.Min, r.Max)
	case (r.Max-r.Min)/r.Step >= listed:
		return fmt.Sprintf("%d to %d in steps of %d", r.Min, r.Max, r.Step)
	}
	text := fmt.Sprint(r.Min)
	for n := r.Min + r.Step; n < r.Max; n += r.Step {
		text += fmt.Sprintf(", %d", n)
	}
	return text + fmt.Sprintf(" or %d", r.Max)
}

// MaxVolumes is the largest number of volumes that each pod of a component has.
const MaxVolumes = 4

// MaxOwnVolumes is the largest number of volumes that each pod has, with those that a user adds and without that of
// access logs: a WorkloadSet has one more.
const MaxOwnVolumes = 7

// Volume that each pod has of its own. The engine adds the claim; the pod template mounts it by name.
type Volume struct {
	Name string `json:"name"`
	// Size when the user sets none.
	Size resource.Quantity `json:"size"`
	// Additional has a user add volumes beside this one.
	Additional *AdditionalVolumes `json:"additional,omitempty"`
}

// AdditionalVolumes are volumes that a user adds to each pod beside the first one. The engine mounts them in the
// container of the process.
type AdditionalVolumes struct {
	// Max is the largest number of them.
	Max int `json:"max"`
	// Path of the container: the first one comes at its folder 1, the second one at 2, and so on.
	Path string `json:"path"`
}

// AdditionalName is the name of a volume that a user adds, counted from 1.
func (v *Volume) AdditionalName(number int) string { return fmt.Sprintf("%s-%d", v.Name, number) }

// PathOf is where such a volume is mounted.
func (a *AdditionalVolumes) PathOf(number int) string { return fmt.Sprintf("%s/%d", a.Path, number) }

// AdditionalNames are those of the volumes that a user can add.
func (c *Component) AdditionalNames() []string {
	var names []string
	if declared := c.Additional(); declared != nil {
		for i := range declared.Max {
			names = append(names, c.Volumes[0].AdditionalName(i+1))
		}
	}
	return names
}

// Additional says what volumes a user can add to the pods of the component; nil for none.
func (c *Component) Additional() *AdditionalVolumes {
	if len(c.Volumes) == 0 {
		return nil
	}
	return c.Volumes[0].Additional
}

// Mount is a place in the container for a volume that a user names and the engine neither makes nor deletes.
type Mount struct {
	// Name by which a user gives it a volume.
	Name string `json:"name"`
	// Path of the container.
	Path string `json:"path"`
	// ReadOnly has nobody write to it.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Required says that there are no pods without it.
	Required bool `json:"required,omitempty"`
	// Each has it take many volumes. Each comes at a folder of Path, and is named by Name, a hyphen and that folder.
	Each bool `json:"each,omitempty"`
	// Description in one line.
	Description string `json:"description,omitempty"`
}

// Port of the container.
type Port struct {
	Name string `json:"name"`
	Port int32  `json:"port"`
	// Access: Client (the default), or Peers for a port that only pods of the same Application may reach where a
	// NetworkPolicy is wanted, or Metrics for a port that is there only where metrics are wanted.
	Access PortAccess `json:"access,omitempty"`
}

// PortAccess says who may reach a port.
type PortAccess string

// Values of PortAccess.
const (
	PortClient PortAccess = "Client"
	PortPeers  PortAccess = "Peers"
	// PortMetrics is for the port of Component.Monitoring alone. No Service has it.
	PortMetrics PortAccess = "Metrics"
)

// Role that a pod may have.
type Role struct {
	Name   string                `json:"name"`
	Access platformv1.RoleAccess `json:"access"`
}

// Service in front of the pods of a component.
type Service struct {
	// Name: "<application>" when empty, else "<application>-<name>".
	Name string `json:"name,omitempty"`
	// Role that it selects; every pod when empty.
	Role string `json:"role,omitempty"`
	// Ports by name.
	Ports []string `json:"ports"`
	// Exposure: Client (type and annotations as the user asks) or Internal (always ClusterIP). Default Client.
	Exposure Exposure `json:"exposure,omitempty"`
}

// PodServices are Services in front of one pod each. They are there where a user asks for them by external of the
// component.
type PodServices struct {
	// Port of the pods that they lead to, by name.
	Port string `json:"port"`
}

// Exposure of a Service.
type Exposure string

// Exposures.
const (
	ExposureClient   Exposure = "Client"
	ExposureInternal Exposure = "Internal"
)

// File is a configuration file of the plan, with the option to append the parameters in force.
type File struct {
	plan.File `json:",inline"`
	// Parameters that are appended, of the defaults and what the user set, in order of name: All, {match: [...]} or
	// {except: [...]}, with names of which each may end with * for all that begin so.
	Parameters FileParameters `json:"parameters,omitzero"`
}

// Topology is a deployment mode.
type Topology struct {
	Name       string              `json:"name"`
	Components []TopologyComponent `json:"components"`
	// From are topologies that an instance can change from: with the same volumes, and what runs goes on or is changed
	// like by any other edit.
	From []string `json:"from,omitempty"`
	// UpdateOrder are components of which each is updated once those before it are: pods of it that serve are restarted or
	// replaced for a change only then. Components that it does not name are updated whenever they change.
	UpdateOrder []string `json:"updateOrder,omitempty"`
	// Binding in this topology; that of the plugin when nil.
	Binding *Binding `json:"binding,omitempty"`
}

// TopologyComponent is a component within a topology.
type TopologyComponent struct {
	Name string `json:"name"`
	// Optional components are there only where the Application names them.
	Optional bool `json:"optional,omitempty"`
	// Sets in this topology; the component's own when absent.
	Sets *Range `json:"sets,omitempty"`
	// Replicas in this topology; the component's own when absent.
	Replicas *Range `json:"replicas,omitempty"`
	// Authority in this topology; the component's own when empty. Failover is in force where it is the engine, Switchover
	// where it is the middleware, of a component that has both.
	Authority Authority `json:"authority,omitempty"`
}

// Credential is a user of the middleware whose password is in a Secret.
type Credential struct {
	Name     string `json:"name"`
	Username string `json:"username"`
	// Length of a generated password. Default 32.
	Length int `json:"length,omitempty"`
	// Topologies that have it; all when empty. Nothing that is in force in another one can use it.
	Topologies []string `json:"topologies,omitempty"`
	// Supplied says that only a user can supply it, as the key of an account elsewhere: it is never made, and there only
	// in an Application that names a Secret for it. The variable app.supplied has its name then. A plan can use it no
	// other way than as a file.
	Supplied bool `json:"supplied,omitempty"`
	// PeerTopologies are the topologies in which the pods log in at each other with it: their processes accept, beside the
	// password, the one in the file "also" where that is there, and another one is taken over in three steps while more
	// than one pod runs.
	PeerTopologies []string `json:"peerTopologies,omitempty"`
}

// Binding describes the Secret after the Service Binding specification: type,
// host, port, username and password, filled in from Service and Credential.
type Binding struct {
	// Type of the service, for example redis.
	Type string `json:"type"`
	// Component that has the Service.
	Component string `json:"component"`
	// Service that clients use: the Service's name in its component, with exposure Client.
	Service string `json:"service,omitempty"`
	// ReadOnlyService is the Service for clients that only read, where there is one: it adds "host-ro" and, with
	// URIScheme, "uri-ro".
	ReadOnlyService string `json:"readOnlyService,omitempty"`
	// Port of the Services, by name. Empty with External.
	Port string `json:"port,omitempty"`
	// External says where what is bound is, when it is not in the pods: there is no Service then. Nil when it is.
	External *ExternalBinding `json:"external,omitempty"`
	// Credential whose username and password are bound; empty for a middleware that asks for none.
	Credential string `json:"credential,omitempty"`
	// Database that clients use, where the middleware has such: it adds "database", and is the path of the URIs.
	Database string `json:"database,omitempty"`
	// URIScheme, when set, adds "uri": scheme://username:password@host:port, or without a credential scheme://host:port.
	URIScheme string `json:"uriScheme,omitempty"`
	// URISchemeTLS takes the place of URIScheme where the instance speaks TLS.
	URISchemeTLS string `json:"uriSchemeTLS,omitempty"`
	// Also are further Services that clients use, where they are there.
	Also []BoundService `json:"also,omitempty"`
	// Aliases are further keys, for clients that know what is bound by other names: each has the value of host, port,
	// username, password or endpoint, which is the URI without a user.
	Aliases map[string]string `json:"aliases,omitempty"`
}

// ExternalBinding is where clients find what is not in the pods.
type ExternalBinding struct {
	// Endpoint is the parameter of the component with its URL: a scheme, a host and maybe a port. What is bound follows
	// from it.
	Endpoint string `json:"endpoint"`
	// Account is the credential whose password is the user name.
	Account string `json:"account"`
	// CA is the credential whose password is the authority of its certificate; none where it is not supplied.
	CA string `json:"ca,omitempty"`
}

// What Aliases of a Binding stand for.
const (
	BoundHost     = "host"
	BoundPort     = "port"
	BoundUsername = "username"
	BoundPassword = "password"
	BoundEndpoint = "endpoint"
)

// BoundService is a Service beside that of the binding. It adds "<prefix>-host", "<prefix>-port", and "<prefix>-<key>"
// for each of Values.
type BoundService struct {
	// Prefix of the keys.
	Prefix string `json:"prefix"`
	// Component that has the Service.
	Component string `json:"component"`
	// Service's name in its component, with exposure Client.
	Service string `json:"service,omitempty"`
	// Port of the Service, by name.
	Port string `json:"port"`
	// Values are fixed texts.
	Values map[string]string `json:"values,omitempty"`
}

// ParameterSet is the content of a "<parameters>.yaml" of the params part.
type ParameterSet struct {
	// Defaults that differ from the middleware's own, by parameter. Values may hold placeholders.
	Defaults map[string]platformv1.ParameterValue `json:"defaults,omitempty"`
	// Dynamic are the parameters that a reload takes over; all others need a restart of the process. A name that ends with
	// * stands for all that begin so.
	Dynamic []string `json:"dynamic,omitempty"`
	// ResetValues are more dynamic parameters, each with the middleware's own default: process.reload.each is run with
	// that value when the parameter is taken out, which restarts the process for those in Dynamic.
	ResetValues map[string]platformv1.ParameterValue `json:"resetValues,omitempty"`
	// Rules tie parameters to each other, where the schema looks at each alone.
	Rules []ParameterRule `json:"rules,omitempty"`
	// Lists are parameters whose value is several words: it is split at blanks when the file is written.
	Lists []string `json:"lists,omitempty"`
	// Reserved are parameters that nobody may set, each with the end of the sentence "it …" that
	// says why, for example "is set by the engine". A name that ends with * stands for all that begin so.
	Reserved map[string]string `json:"reserved,omitempty"`
}

// ParameterRule must hold for the parameters in force.
type ParameterRule struct {
	// Rule is a CEL expression that gives a bool, over app, component, set and params; without "${" and "}".
	Rule string `json:"rule"`
	// Message says what to do when it does not hold, in one sentence.
	Message string `json:"message"`
}
