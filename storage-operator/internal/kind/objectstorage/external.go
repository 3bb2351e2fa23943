// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
	"cmp"
	"errors"
	"net"
	"net/url"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// What the plugin s3-external calls things.
const (
	externalPlugin    = "s3-external"
	externalVersion   = "2006.3"
	externalTopology  = "external"
	externalComponent = "keeper"
)

const (
	// defaultRegion is what storages take that know no regions.
	defaultRegion = "us-east-1"
	// Keys of the Secret with the keys of an account.
	accountKey, accountSecretKey = "accessKey", "secretKey"
)

// addressing is where the name of a bucket is, in the words of the plugin.
var addressing = map[platformv1.AddressingStyle]platformv1.ParameterValue{"": "path", platformv1.AddressingPath: "path",
	platformv1.AddressingVirtualHost: "virtual"}

// externalInstance is what the pod that looks after a storage elsewhere has of an InstanceSpec.
var externalInstance = typed.Instance{Plugin: externalPlugin, PluginVersion: pluginVersion,
	Component: externalComponent}

// compileExternal returns the Application of a pod that looks after a storage elsewhere.
func compileExternal(spec *storagev1.ObjectStorageSpec) (*platformv1.Application, error) {
	e := spec.External
	if e == nil {
		return nil, errors.New("backend External needs external: where the storage is, and the Secret with the keys of an " +
			"account there")
	}
	app := externalInstance.Application(&spec.InstanceSpec, spec.PluginVersion)
	app.Spec.Version, app.Spec.Topology = externalVersion, externalTopology
	app.Spec.Components[0].Parameters = platformv1.Parameters{
		"endpoint":   platformv1.ParameterValue(e.Endpoint),
		"region":     platformv1.ParameterValue(cmp.Or(e.Region, defaultRegion)),
		"addressing": addressing[e.AddressingStyle],
	}
	secret := e.CredentialsSecretRef.Name
	app.Spec.Credentials = append([]platformv1.Credential{
		typed.Supplied("access-key", secret, accountKey), typed.Supplied("secret-key", secret, accountSecretKey),
	}, typed.Authority("storage-ca", e.CASecretRef)...)
	return app, nil
}

// externalEndpoint is the host and the port of a URL, which the CRD has checked.
func externalEndpoint(text string) string {
	at, err := url.Parse(text)
	if err != nil {
		return ""
	}
	ports := map[string]string{"http": "80", "https": "443"}
	return net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), ports[at.Scheme]))
}
