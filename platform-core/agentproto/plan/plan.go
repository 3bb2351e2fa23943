// SPDX-License-Identifier: Apache-2.0

// Package plan describes what the agents of a pod run and watch. The engine
// renders a Plan from a plugin, keeps it in a ConfigMap that the pod mounts, and
// sends it along with Restart and Reload; the agents carry it out.
//
// The package imports the standard library only, so that both sides can use it.
package plan

// Fixed places inside a pod. Every plugin can rely on them.
const (
	// BinDir holds the agent's binary, put there by the init container.
	BinDir = "/zeroinfra/bin"
	// AgentPath is the agent's binary.
	AgentPath = BinDir + "/agent"
	// OpsPath is the ops agent's binary, there where the plan has actions.
	OpsPath = BinDir + "/agent-ops"
	// PlanDir is where the ConfigMap with the plan is mounted; the file is PlanFile.
	PlanDir = "/zeroinfra/plan"
	// PlanFile is the key in the ConfigMap and the name of the file.
	PlanFile = "plan.json"
	// ConfigDir is in memory; the process manager writes configuration files with secrets there.
	ConfigDir = "/zeroinfra/config"
	// RunDir is shared by the containers of the pod and lives as long as the pod: socket, call records, pushed plan.
	RunDir = "/zeroinfra/run"
	// SocketPath is the process manager's unix socket for the status agent.
	SocketPath = RunDir + "/process.sock"
	// SecretsDir holds one folder per credential with the files password and RevisionFile. User names are no secrets and
	// part of the plan.
	SecretsDir = "/zeroinfra/secrets"
	// RevisionFile changes with the password beside it and gives nothing of it away.
	RevisionFile = "revision"
	// ArchiveDir is where the volume of a BackupRepository is mounted that the process keeps its archive on.
	ArchiveDir = "/zeroinfra/archive"
	// TLSDir holds the agent's server certificate: tls.crt, tls.key and ca.crt, replaced when renewed.
	TLSDir = "/zeroinfra/tls"

	// CertificatesDir holds the certificate that the middleware shows its clients, where it speaks TLS: CertificateFile,
	// KeyFile and CAFile, replaced when renewed.
	CertificatesDir = "/zeroinfra/certs"
	// CertificateFile is the certificate with what leads to the CA.
	CertificateFile = "tls.crt"
	// KeyFile is its key.
	KeyFile = "tls.key"
	// CAFile is the CA's certificate.
	CAFile = "ca.crt"
	// ProcessPort is where the process manager serves gRPC with mutual TLS.
	ProcessPort = 4880
	// PodDir holds what the operator writes onto the pod once it is on a node, where the plan asks for that.
	PodDir = "/zeroinfra/pod"
	// ZoneFile is the file below it with the zone of the node, as a text of JSON; empty while it is not known.
	ZoneFile = "zone"
	// StatusPort is where the status agent serves GET /readyz over HTTP: 200 when healthy, else 503 and a reason.
	StatusPort = 4881
	// ReadinessPeriodSeconds is the time between two questions of the kubelet for /readyz, and ReadinessFailures how many
	// refusals in a row have the pod not be ready: a process that ends may get requests for that long.
	ReadinessPeriodSeconds = 2
	ReadinessFailures      = 3
	// OpsPort is where the ops agent serves gRPC with mutual TLS.
	OpsPort = 4882
)

// Plan is all that the agents of one pod need to know. Version is 1.
type Plan struct {
	// Version of this format: 1. Another one is refused.
	Version int `json:"version"`
	// Digest of Process, Files and Credentials, made by the engine: "sha256:" and 64
	// hexadecimal digits. The agents report it and never compute it.
	Digest string `json:"digest"`
	// RestartDigest is the same over all but the dynamic entries of Files: as long as a process runs with this
	// digest, a reload takes over what changed.
	RestartDigest string `json:"restartDigest"`
	// Domain is the DNS domain of the pods: a pod's own name is "<pod>.<domain>".
	Domain string `json:"domain,omitempty"`
	// External is there where clients outside of the cluster reach each pod by itself. It is no part of Digest: each
	// pod has digests of its own.
	External *External `json:"external,omitempty"`
	// Process to run. In its texts, and in those of Files and Probe (Rewrite says which), the agents replace ${pod.name},
	// ${pod.ordinal}, ${pod.fqdn}, ${pod.zone}, ${pod.external.host} and ${pod.external.port} by what is true of their
	// pod; $${ is a literal ${ (package podtext).
	Process Process `json:"process"`
	// Files to write before the process starts.
	Files []File `json:"files,omitempty"`
	// Credentials tells which passwords the process is to run with: by credential, what RevisionFile beside the password
	// says once the pod has it. Until then a Restart or Reload with this plan is refused, to be called again.
	Credentials map[string]string `json:"credentials,omitempty"`
	// Probe to run beside it. A change of the probe restarts nothing.
	Probe Probe `json:"probe"`
	// TLS is there where CertificatesDir is. It is no part of the digests: a change of it restarts nothing.
	TLS *TLS `json:"tls,omitempty"`
	// Actions that the ops agent runs on request. They are no part of the digests, either.
	Actions []Action `json:"actions,omitempty"`
	// Driver of the ops agent; nil for none. It is no part of the digests, and neither are Entities.
	Driver *Driver `json:"driver,omitempty"`
	// Entities are the types of objects inside the middleware that the ops agent keeps.
	Entities []EntityType `json:"entities,omitempty"`
	// Metrics is there where the ops agent tells metrics. It is no part of the digests.
	Metrics *Metrics `json:"metrics,omitempty"`
	// Logs is there where the process writes access logs to a volume. It is no part of the digests either: another size of
	// the volume restarts nothing.
	Logs *Logs `json:"logs,omitempty"`
	// Writing is there where the engine is the authority over who may write. It is no part of the digests.
	Writing *Writing `json:"writing,omitempty"`
}

// Logs says how the process manager keeps the access logs of the process within their volume.
type Logs struct {
	// Dir that the volume is mounted at.
	Dir string `json:"dir"`
	// Files right below Dir that the process writes. When one has grown beyond its share it is renamed to end with ".1",
	// the one before to ".2", and so on; what comes after the last is removed.
	Files []string `json:"files"`
	// MaxBytes of all files together, renamed ones included. Each file has an equal share.
	MaxBytes int64 `json:"maxBytes"`
	// Signal by name that has the process open its files anew.
	Signal string `json:"signal"`
}

// TLS says how the process takes over a certificate that was renewed.
type TLS struct {
	// Reload is a signal or a command; nil for a process that reads the files anew by itself.
	Reload *Reload `json:"reload,omitempty"`
}

// Process is the middleware's own process.
type Process struct {
	// Command and arguments; never through a shell.
	Command []string `json:"command"`
	// Env is added to the container's environment.
	Env []EnvVar `json:"env,omitempty"`
	// Dir is the working directory, the container's own when empty: the folder with the pod's data, which the process
	// manager locks with the file .zeroinfra.lock there, so that no other pod may have the same one.
	Dir string `json:"dir,omitempty"`
	// Stop says how it is stopped.
	Stop Stop `json:"stop"`
	// Reload says how it takes over new configuration; nil when it must be restarted for that.
	Reload *Reload `json:"reload,omitempty"`
	// Hooks are run at points of its life; nil for none.
	Hooks *Hooks `json:"hooks,omitempty"`
	// Signals that a caller may send by name, for example SIGHUP.
	Signals []string `json:"signals,omitempty"`
	// Backoff between restarts of a process that exits by itself.
	Backoff Backoff `json:"backoff,omitzero"`
}

// Stop is a graceful stop: the signal, then SIGKILL after the timeout.
type Stop struct {
	// Signal by name. Default SIGTERM.
	Signal string `json:"signal,omitempty"`
	// TimeoutSeconds from the signal until SIGKILL. Default 30. The pod's grace period is at least 5 s longer than this
	// and the time of the hook before the stop, of which MaxPodHookSeconds count.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
}

// Reload is one of a signal, a command, or a command for each changed entry. Files are written first.
type Reload struct {
	// Signal by name.
	Signal string `json:"signal,omitempty"`
	// Command and arguments, run beside the process; exit code 0 is success.
	Command []string `json:"command,omitempty"`
	// Each is a command that is run once for each dynamic entry that was added or changed, with the key and then the
	// arguments of the entry, joined by blanks, appended as two arguments. An entry that is gone is given what Initial has
	// for its key; without that it needs a restart.
	Each []string `json:"each,omitempty"`
	// ResetValues is what the process has for a key that no entry sets. It is no part of the digests: what another one has
	// takes over with the next reload. For Each only.
	ResetValues map[string]string `json:"resetValues,omitempty"`
	// Env of the command.
	Env []EnvVar `json:"env,omitempty"`
	// TimeoutSeconds of each run of the command. Default 10.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
	// Credentials whose passwords a reload takes over: another one of these is no reason for a restart.
	Credentials []string `json:"credentials,omitempty"`
}

// Backoff of restarts: the first delay, doubled up to the longest, back to the first after a run of ResetSeconds.
type Backoff struct {
	// InitialMilliseconds is the first delay. Default 200.
	InitialMilliseconds int `json:"initialMilliseconds,omitempty"`
	// MaxSeconds is the longest delay. Default 30.
	MaxSeconds int `json:"maxSeconds,omitempty"`
	// ResetSeconds of running after which the delay starts anew. Default 60.
	ResetSeconds int `json:"resetSeconds,omitempty"`
}

// EnvVar is one environment variable: a value or a reference to a secret.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
	// Secret is read from its mount each time that the command is started.
	Secret *SecretRef `json:"secret,omitempty"`
	// When is for plugins: an expression. The engine leaves the variable out of a plan unless it gives true.
	When string `json:"when,omitempty"`
}

// SecretRef names one key of a mounted credential; its value is the content of SecretsDir/Credential/Key.
type SecretRef struct {
	Credential string `json:"credential"`
	Key        string `json:"key"`
}

// Format is the syntax of a configuration file.
type Format string

// Formats that the encoders know (package configfile).
const (
	FormatRedis      Format = "redis"
	FormatProperties Format = "properties"
	FormatEnv        Format = "env"
	FormatJSON       Format = "json"
	FormatYAML       Format = "yaml"
	FormatINI        Format = "ini"
	// FormatMySQL is an option file with the section of the server alone.
	FormatMySQL      Format = "mysql"
	FormatPostgreSQL Format = "postgresql"
	FormatNginx      Format = "nginx"
	FormatPgBouncer  Format = "pgbouncer"
	FormatUserList   Format = "userlist"
	FormatText       Format = "text"
)

// File is one configuration file, written atomically. Values are escaped by the
// format's encoder, so that a value is always just a value.
type File struct {
	// Path, absolute, under ConfigDir.
	Path string `json:"path"`
	// Format of the file.
	Format Format `json:"format"`
	// Mode in octal. Default "0600".
	Mode string `json:"mode,omitempty"`
	// Entries in order. A key may be there more than once where the format allows it.
	Entries []Entry `json:"entries"`
}

// Entry is one setting: a key and a value, or a key and a reference to a secret.
type Entry struct {
	// Key of the setting. For ini and yaml, "section.key" puts it below a section.
	Key string `json:"key"`
	// Args are the values; most settings have one.
	Args []string `json:"args,omitempty"`
	// Secret is appended to Args when the file is written.
	Secret *SecretRef `json:"secret,omitempty"`
	// Dynamic says that a reload takes over a change of this entry.
	Dynamic bool `json:"dynamic,omitempty"`
	// When is for plugins: an expression. The engine leaves the entry out of a plan unless it gives true.
	When string `json:"when,omitempty"`
}

// Probe is a command, or a request, whose outcome says how the middleware is.
//
// The expressions are CEL over: stdout and stderr (string), exitCode (int), and
// fields (map of string to string: the lines "key:value" or "key=value" of stdout, trimmed).
type Probe struct {
	// Command and arguments; never through a shell. Empty where HTTP is asked from the start.
	Command []string `json:"command,omitempty"`
	// HTTP is a request in place of Command. With both, Command has to succeed once for each process; after that the
	// request alone says whether it is healthy, and role, version and attributes stay what Command has said.
	HTTP *HTTPProbe `json:"http,omitempty"`
	// Env is added to the container's environment of Command.
	Env []EnvVar `json:"env,omitempty"`
	// IntervalSeconds between runs. Default 2. While unhealthy or after a change of the process it runs sooner.
	IntervalSeconds int `json:"intervalSeconds,omitempty"`
	// TimeoutSeconds of one run, then it is killed and counts as failed. Default 2.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
	// FailureThreshold is the number of failures in a row until the middleware counts as unhealthy. Default 3.
	FailureThreshold int `json:"failureThreshold,omitempty"`
	// Healthy is a boolean expression. Default "exitCode == 0".
	Healthy string `json:"healthy,omitempty"`
	// OutOfConnections is a boolean expression, asked where Healthy is not true: the middleware answers, and has no
	// connection left for the probe. It is alive then: health, role and attributes stay what they were. Default: never.
	OutOfConnections string `json:"outOfConnections,omitempty"`
	// Reserved are arguments that are added to Command for another attempt where OutOfConnections is true: the way in
	// that the middleware keeps free. None where it keeps none.
	Reserved []string `json:"reserved,omitempty"`
	// Role is a string expression; "" for none.
	Role string `json:"role,omitempty"`
	// Version is a string expression that gives the middleware's version, for example fields['redis_version'].
	Version string `json:"version,omitempty"`
	// MemberID is a string expression that gives the identifier by which the other members of the middleware know this
	// one, for example fields['MemberID'] of etcd.
	MemberID string `json:"memberID,omitempty"`
	// Attributes are string expressions by name. Only such as change rarely: a change is an API write.
	Attributes map[string]string `json:"attributes,omitempty"`
	// AttributesWhen is a boolean expression, asked where Healthy is not true: the attributes are reported all the same,
	// as of a member that copies what it lacks and votes meanwhile. Default: never.
	AttributesWhen string `json:"attributesWhen,omitempty"`
}

// HTTPProbe is a GET that the status agent makes within the pod. What is answered is stdout. exitCode is 0 for a status
// from 200 to 399, else the status; without an answer it is 1, and stderr says why.
type HTTPProbe struct {
	// Port of the middleware.
	Port int32 `json:"port"`
	// Path of the request, with its query.
	Path string `json:"path"`
	// TLS says that the port speaks TLS. The certificate is not looked at: both ends are in the pod.
	TLS bool `json:"tls,omitempty"`
	// IntervalSeconds between requests while they succeed. Default: that of the probe.
	IntervalSeconds int `json:"intervalSeconds,omitempty"`
	// TimeoutSeconds of a request. Default: that of the probe.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
}
