// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"cmp"
	"fmt"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// Credentials of the plugin that only a user can supply.
const (
	archiveCredential   = "archive"
	archiveCACredential = "archive-ca"
)

func archiveCredentials(a *databasev1.PostgreSQLArchive) []platformv1.Credential {
	if a == nil {
		return nil
	}
	list := []platformv1.Credential{{Name: archiveCredential, PasswordFrom: a.SecretKeyFrom}}
	if a.CAFrom != nil {
		list = append(list, platformv1.Credential{Name: archiveCACredential, PasswordFrom: *a.CAFrom})
	}
	return list
}

func archiveParameters(a *databasev1.PostgreSQLArchive) platformv1.Parameters {
	if a == nil {
		return nil
	}
	out := platformv1.Parameters{
		"archive.endpoint": platformv1.ParameterValue(a.Endpoint), "archive.bucket": platformv1.ParameterValue(a.Bucket),
		"archive.accessKey": platformv1.ParameterValue(a.AccessKey), "archive.addressing": inWords(cmp.Or(a.Addressing, databasev1.ArchiveAddressingAuto)),
	}
	if a.Prefix != "" {
		out["archive.prefix"] = platformv1.ParameterValue(a.Prefix)
	}
	if a.Region != "" {
		out["archive.region"] = platformv1.ParameterValue(a.Region)
	}
	if a.Timeout != nil {
		// The server knows whole seconds.
		out["archive.timeout"] = platformv1.ParameterValue(fmt.Sprintf("%ds", (a.Timeout.Duration+time.Second-1)/time.Second))
	}
	return out
}
