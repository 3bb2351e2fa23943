// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
)

// Volumes of the engine in every pod.
const (
	volumeBin     = podtemplate.VolumePrefix + "bin"
	volumeRun     = podtemplate.VolumePrefix + "run"
	volumeConfig  = podtemplate.VolumePrefix + "config"
	volumePlan    = podtemplate.VolumePrefix + "plan"
	volumeSecrets = podtemplate.VolumePrefix + "secrets"
	volumeTLS     = podtemplate.VolumePrefix + "tls"
	volumeToken   = podtemplate.VolumePrefix + "token"
	volumeCerts   = podtemplate.VolumePrefix + "certs"
	volumePod     = podtemplate.VolumePrefix + "pod"
)

const (
	// tokenDir is where clients of the API look for their token.
	tokenDir = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenSeconds is the life of a token; the kubelet renews it well before.
	tokenSeconds = 3600
	// secretMode lets the pod's group read secrets, which the kubelet gives to fsGroup.
	secretMode = 0o440
	// caConfigMap is what Kubernetes keeps in every namespace.
	caConfigMap = "kube-root-ca.crt"
)

// podIdentity tells a container which pod it is in, and, where clients reach the pod there, the address of the node.
func (c *context) podIdentity() []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
		}}
	}
	identity := []corev1.EnvVar{field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace")}
	if c.spec.External.OnNode() {
		identity = append(identity, field(plan.HostIPVariable, "status.hostIP"))
	}
	return identity
}

// agentResources of the containers that run nothing but the agent and a probe.
func agentResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("10m"),
			corev1.ResourceMemory: resource.MustParse("24Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
	}
}

// opsResources of the ops agent's container, which runs actions besides.
func opsResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("10m"),
			corev1.ResourceMemory: resource.MustParse("32Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
	}
}

// initContainer copies the agents' binaries into the pod.
func (c *context) initContainer(p *plan.Plan) corev1.Container {
	command := []string{agentImagePath, "init"}
	if c.needsOps() || c.tellsMetrics() || runsOps(p) {
		command = append(command, "--with", path.Base(plan.OpsPath))
	}
	return corev1.Container{
		Name:         podtemplate.InitContainer,
		Image:        c.settings.AgentImage,
		Command:      command,
		Resources:    agentResources(),
		VolumeMounts: []corev1.VolumeMount{{Name: volumeBin, MountPath: plan.BinDir}},
	}
}

// statusContainer runs the probe in the middleware's own image, so that its tools are there. It
// alone has the token that lets it write the pod's report.
func (c *context) statusContainer(image string) corev1.Container {
	container := corev1.Container{
		Name:      podtemplate.StatusContainer,
		Image:     image,
		Command:   []string{plan.AgentPath, "status"},
		Env:       c.podIdentity(),
		Ports:     []corev1.ContainerPort{tcpPort("agent-status", plan.StatusPort)},
		Resources: agentResources(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeBin, MountPath: plan.BinDir, ReadOnly: true},
			{Name: volumeRun, MountPath: plan.RunDir},
			{Name: volumePlan, MountPath: plan.PlanDir, ReadOnly: true},
			{Name: volumeToken, MountPath: tokenDir, ReadOnly: true},
		},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: "/readyz", Port: intstr.FromInt32(plan.StatusPort), Scheme: corev1.URISchemeHTTP,
			}},
			PeriodSeconds:    plan.ReadinessPeriodSeconds,
			TimeoutSeconds:   2,
			SuccessThreshold: 1,
			FailureThreshold: plan.ReadinessFailures,
		},
	}
	c.mountSecrets(&container)
	c.mountCertificates(&container)
	return container
}

// opsContainer runs the actions that the plugin declares in the middleware's own image. It has no token.
func (c *context) opsContainer(image string) corev1.Container {
	container := corev1.Container{
		Name:      podtemplate.OpsContainer,
		Image:     image,
		Command:   []string{plan.OpsPath, "ops"},
		Env:       c.podIdentity(),
		Ports:     []corev1.ContainerPort{tcpPort("agent-ops", plan.OpsPort)},
		Resources: opsResources(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeBin, MountPath: plan.BinDir, ReadOnly: true},
			{Name: volumeRun, MountPath: plan.RunDir},
			{Name: volumePlan, MountPath: plan.PlanDir, ReadOnly: true},
			{Name: volumeTLS, MountPath: plan.TLSDir, ReadOnly: true},
		},
	}
	if driver := c.declared.Driver; driver != nil && driver.EntitiesFile != "" {
		container.VolumeMounts = append(container.VolumeMounts,
			corev1.VolumeMount{Name: volumeConfig, MountPath: plan.ConfigDir})
	}
	c.mountSecrets(&container)
	c.mountCertificates(&container)
	return container
}

func (c *setContext) volumes() []corev1.Volume {
	volumes := []corev1.Volume{
		scratch(volumeBin, corev1.StorageMediumDefault, "128Mi"),
		scratch(volumeRun, corev1.StorageMediumDefault, "16Mi"),
		// Files with secrets never reach a disk.
		scratch(volumeConfig, corev1.StorageMediumMemory, "4Mi"),
		{Name: volumePlan, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: platformv1.PlanNameFor(c.name)},
			DefaultMode:          new(int32(0o444)),
		}}},
		{Name: volumeTLS, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName:  platformv1.AgentCertificateNameFor("${pod.name}"),
			DefaultMode: new(int32(secretMode)),
		}}},
		tokenVolume(),
	}
	if secrets := c.secretSources(); len(secrets) > 0 {
		volumes = append(volumes, corev1.Volume{Name: volumeSecrets, VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: secrets, DefaultMode: new(int32(secretMode))},
		}})
	}
	if c.spec.TLS.On() {
		volumes = append(volumes, c.certificates())
	}
	return volumes
}

// certificates are the component's certificate with its key, and beside it all CAs to trust: while a CA gives way to
// another one, those of certificates that other components have.
func (c *context) certificates() corev1.Volume {
	items := func(secret string, keys ...string) corev1.VolumeProjection {
		projection := &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}
		for _, key := range keys {
			projection.Items = append(projection.Items, corev1.KeyToPath{Key: key, Path: key})
		}
		return corev1.VolumeProjection{Secret: projection}
	}
	return corev1.Volume{Name: volumeCerts, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{
			items(platformv1.CertificateNameFor(c.owner.Application, c.spec.Component), plan.CertificateFile, plan.KeyFile),
			items(platformv1.TrustNameFor(c.owner.Application), plan.CAFile),
		},
		DefaultMode: new(int32(secretMode)),
	}}}
}

// secretSources projects the password of each credential that the component uses to "<credential>/password", and beside
// it what tells one from another. User names are no secrets: they are part of the plan.
func (c *context) secretSources() []corev1.VolumeProjection {
	var sources []corev1.VolumeProjection
	for _, name := range c.declared.Credentials {
		var items []corev1.KeyToPath
		keys := []string{plugin.SecretKeyPassword, plan.RevisionFile}
		if c.acceptsAlso(name) {
			keys = append(keys, plugin.SecretKeyAlso)
		}
		for _, key := range keys {
			items = append(items, corev1.KeyToPath{Key: key, Path: name + "/" + key})
		}
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: platformv1.CredentialNameFor(c.owner.Application, name)},
			Items:                items,
		}})
	}
	return sources
}

// acceptsAlso says whether the pods mount what their processes accept beside the password of a credential.
func (c *context) acceptsAlso(credential string) bool {
	return slices.ContainsFunc(c.spec.Credentials,
		func(have platformv1.ComponentCredential) bool { return have.Name == credential && have.Also })
}

// passwords are the revisions of the passwords that the processes are to run with, by credential.
func (c *context) passwords() map[string]string {
	var revisions map[string]string
	for _, credential := range c.spec.Credentials {
		if credential.Revision == "" || !slices.Contains(c.declared.Credentials, credential.Name) {
			continue
		}
		if revisions == nil {
			revisions = map[string]string{}
		}
		revisions[credential.Name] = credential.Revision
	}
	return revisions
}

// secretOf says where the password of a credential is: in the user's Secret, or the one that the engine makes.
func (c *context) secretOf(credential string) platformv1.SecretKeyReference {
	reference := platformv1.SecretKeyReference{Name: platformv1.CredentialNameFor(c.owner.Application, credential)}
	i := slices.IndexFunc(c.spec.Credentials,
		func(have platformv1.ComponentCredential) bool { return have.Name == credential })
	if i >= 0 {
		reference = c.spec.Credentials[i].PasswordFrom
	}
	reference.Key = cmp.Or(reference.Key, plugin.SecretKeyPassword)
	return reference
}

func scratch(name string, medium corev1.StorageMedium, size string) corev1.Volume {
	limit := resource.MustParse(size)
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium, SizeLimit: &limit},
	}}
}

// tokenVolume is what automountServiceAccountToken would mount: for the status container, and for the process where its
// plugin gives it permissions.
func tokenVolume() corev1.Volume {
	return corev1.Volume{Name: volumeToken, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(int32(secretMode)),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token",
				ExpirationSeconds: new(int64(tokenSeconds))}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: caConfigMap},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}}}
}
