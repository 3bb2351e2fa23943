// SPDX-License-Identifier: Apache-2.0

package kindparts

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// Credentials of plugins that only a user can supply.
const (
	archiveCredential   = "archive"
	archiveCACredential = "archive-ca"
)

// ArchiveIn is the BackupRepository that has the archive; nil where it is said otherwise where that is.
func ArchiveIn(a *databasev1.LogArchive) *platformv1.Archive {
	if a == nil || a.RepositoryRef == nil {
		return nil
	}
	return &platformv1.Archive{RepositoryRef: *a.RepositoryRef}
}

// ArchiveCredentials are those that open a bucket which the archive names itself.
func ArchiveCredentials(a *databasev1.LogArchive) []platformv1.Credential {
	if a == nil || a.RepositoryRef != nil {
		return nil
	}
	list := []platformv1.Credential{{Name: archiveCredential, PasswordFrom: a.SecretKeyFrom}}
	if a.CAFrom != nil {
		list = append(list, platformv1.Credential{Name: archiveCACredential, PasswordFrom: *a.CAFrom})
	}
	return list
}

// ArchiveParameters are what plugins call the fields of an archive.
func ArchiveParameters(a *databasev1.LogArchive) platformv1.Parameters {
	if a == nil {
		return nil
	}
	out := platformv1.Parameters{}
	if a.RepositoryRef == nil {
		out["archive.endpoint"], out["archive.bucket"] = platformv1.ParameterValue(a.Endpoint),
			platformv1.ParameterValue(a.Bucket)
		out["archive.accessKey"], out["archive.addressing"] = platformv1.ParameterValue(a.AccessKey),
			platformv1.ParameterValue(strings.ToLower(string(cmp.Or(a.Addressing, databasev1.ArchiveAddressingAuto))))
	}
	if a.Prefix != "" {
		out["archive.prefix"] = platformv1.ParameterValue(a.Prefix)
	}
	if a.Region != "" {
		out["archive.region"] = platformv1.ParameterValue(a.Region)
	}
	if a.Timeout != nil {
		// Servers know whole seconds.
		out["archive.timeout"] = platformv1.ParameterValue(fmt.Sprintf("%ds", (a.Timeout.Duration+time.Second-1)/time.Second))
	}
	return out
}
