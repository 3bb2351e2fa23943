// SPDX-License-Identifier: Apache-2.0

package kafkacluster

import (
	"cmp"
	"errors"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
)

// What the plugin kafka calls the pod that looks after a cluster elsewhere.
const (
	external = "external"
	keeper   = "keeper"
	// keeperVersion is that of the pod's image: that of the cluster is not known.
	keeperVersion = "4.4"
)

// externalInstance is what that pod has of an InstanceSpec.
var externalInstance = typed.Instance{Plugin: plugin, PluginVersion: "1.0.0", Component: keeper}

// compileExternal returns the Application of a pod that looks after the topics of a cluster elsewhere.
func compileExternal(spec *messagev1.KafkaClusterSpec) (*platformv1.Application, error) {
	b := spec.Bootstrap
	if len(b.Servers) == 0 {
		return nil, errors.New("bootstrap.servers names no broker: add one such as kafka-0.example.com:9093")
	}
	app := externalInstance.Application(&spec.InstanceSpec, spec.PluginVersion)
	app.Spec.Version, app.Spec.Topology = keeperVersion, external
	app.Spec.Components[0].Parameters = platformv1.Parameters{
		"bootstrap": platformv1.ParameterValue(strings.Join(b.Servers, ",")),
		"endpoint":  platformv1.ParameterValue("kafka://" + b.Servers[0]),
		"mechanism": platformv1.ParameterValue(cmp.Or(b.Mechanism, messagev1.MechanismSCRAM512)),
		"security":  platformv1.ParameterValue(cmp.Or(b.Security, messagev1.SecurityTLS)),
	}
	secret := b.CredentialsSecretRef.Name
	app.Spec.Credentials = append([]platformv1.Credential{
		typed.Supplied("account", secret, "username"), typed.Supplied("account-password", secret, typed.PasswordKey),
	}, typed.Authority("brokers-ca", b.CASecretRef)...)
	return app, nil
}
