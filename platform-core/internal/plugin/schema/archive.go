// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"slices"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Archive says by which parameters and credentials a component is told where it keeps what it archives, and the command
// of a restore where that is. Where an Application names a BackupRepository for it, the engine says them, and nobody
// else.
type Archive struct {
	// Parameters by name.
	Parameters ArchiveParameters `json:"parameters"`
	// Credentials that open a bucket; each is one that only a user can supply.
	Credentials ArchiveCredentials `json:"credentials,omitzero"`
}

// ArchiveParameters are the names of parameters of the component.
type ArchiveParameters struct {
	// Folder is for the folder that has the archive, in the bucket or below Volume.
	Folder string `json:"folder"`
	// Volume is for where the volume is mounted: plan.ArchiveDir. Nobody else ever sets it. Empty for a component that
	// keeps no archive on a volume.
	Volume string `json:"volume,omitempty"`
	// Bucket, Endpoint, Region and Addressing ("path" or "virtual") are for a bucket; all empty for a component that keeps
	// no archive in one.
	Bucket     string `json:"bucket,omitempty"`
	Endpoint   string `json:"endpoint,omitempty"`
	Region     string `json:"region,omitempty"`
	Addressing string `json:"addressing,omitempty"`
}

// ArchiveCredentials are the names of credentials of the component.
type ArchiveCredentials struct {
	// AccessKey is the name of the account, SecretKey its key, and CA has the authority of the store's certificate.
	AccessKey string `json:"accessKey,omitempty"`
	SecretKey string `json:"secretKey,omitempty"`
	CA        string `json:"ca,omitempty"`
}

// Words for where a request names a bucket, as a plugin reads them.
const (
	ArchiveAddressingPath    = "path"
	ArchiveAddressingVirtual = "virtual"
)

// ParameterNames are those of the parameters that the engine says where an Application names a BackupRepository.
func (a *Archive) ParameterNames() []string {
	p := a.Parameters
	return given(p.Folder, p.Volume, p.Bucket, p.Endpoint, p.Region, p.Addressing)
}

// CredentialNames are those of the credentials that it says then.
func (a *Archive) CredentialNames() []string {
	return given(a.Credentials.AccessKey, a.Credentials.SecretKey, a.Credentials.CA)
}

func given(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// Takes says whether a component can keep its archive in a place of this kind.
func (a *Archive) Takes(place *platformv1.ComponentArchive) bool {
	if place.Claim != "" {
		return a.Parameters.Volume != ""
	}
	return a.Parameters.Bucket != ""
}

// ParametersFor are those that lead to a place.
func (a *Archive) ParametersFor(place *platformv1.ComponentArchive) platformv1.Parameters {
	all := platformv1.Parameters{}
	set := func(name, value string) {
		if name != "" && value != "" {
			all[name] = platformv1.ParameterValue(value)
		}
	}
	set(a.Parameters.Folder, place.Folder)
	if place.Claim != "" {
		set(a.Parameters.Volume, plan.ArchiveDir)
	}
	if b := place.Bucket; b != nil {
		set(a.Parameters.Bucket, b.Name)
		set(a.Parameters.Endpoint, b.Endpoint)
		set(a.Parameters.Region, b.Region)
		addressing := ArchiveAddressingPath
		if b.AddressingStyle == platformv1.AddressingVirtualHost {
			addressing = ArchiveAddressingVirtual
		}
		set(a.Parameters.Addressing, addressing)
	}
	return all
}

// CredentialsFor are those that open a place.
func (a *Archive) CredentialsFor(place *platformv1.ComponentArchive) []platformv1.Credential {
	b := place.Bucket
	if b == nil {
		return nil
	}
	all := []platformv1.Credential{
		{Name: a.Credentials.AccessKey, PasswordFrom: platformv1.SecretKeyReference{Name: b.CredentialsSecretRef.Name,
			Key: platformv1.StoreAccessKey}},
		{Name: a.Credentials.SecretKey, PasswordFrom: platformv1.SecretKeyReference{Name: b.CredentialsSecretRef.Name,
			Key: platformv1.StoreSecretKey}},
	}
	if ca := b.CASecretRef; ca != nil && a.Credentials.CA != "" {
		all = append(all, platformv1.Credential{Name: a.Credentials.CA,
			PasswordFrom: platformv1.SecretKeyReference{Name: ca.Name, Key: ca.Key}})
	}
	return all
}
