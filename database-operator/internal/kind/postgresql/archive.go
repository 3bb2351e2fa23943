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

// archiveIn is the BackupRepository that has the archive; nil where it is said otherwise where that is.
func archiveIn(a *databasev1.PostgreSQLArchive) *platformv1.Archive {
	if a == nil || a.RepositoryRef == nil {
		return nil
	}
	return &platformv1.Archive{RepositoryRef: *a.RepositoryRef}
}

func archiveCredentials(a *databasev1.PostgreSQLArchive) []platformv1.Credential {
	if a == nil || a.RepositoryRef != nil {
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
	out := platformv1.Parameters{}
	if a.RepositoryRef == nil {
		out["archive.endpoint"], out["archive.bucket"] = platformv1.ParameterValue(a.Endpoint), platformv1.ParameterValue(a.Bucket)
		out["archive.accessKey"], out["archive.addressing"] = platformv1.ParameterValue(a.AccessKey), inWords(cmp.Or(a.Addressing, databasev1.ArchiveAddressingAuto))
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
