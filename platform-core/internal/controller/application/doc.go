// SPDX-License-Identifier: Apache-2.0

// Package application breaks an Application down into its Components and says how the instance is.
//
// Duty: check the spec against the pinned plugin; the Secrets of credentials (a
// password that nobody supplies is generated once); Components, each started when what it needs is ready and stopped
// before it, and written after those that are updated before it; the CA of an instance that speaks TLS; the binding
// Secret; the status that users read. Replicas, resources and parameters that somebody else gives a Component go up to
// the object that declares the Application; every other edit is reverted, with an event that says of what.
//
// Inputs: the Application, the loaded plugin, the Secrets and BackupRepositories that it names, its Components, and
// which Operation of it runs.
//
// Field owner: application.
//
// Conditions: Ready, Reconciling, Stalled, Accepted, which says whether the
// inputs are usable, ArchiveFound, which says whether the
// BackupRepository of its archive is there, and BackupsVerified, which says what the
// last restore drill came to, and CertificateServed, Monitored and what the plugin declares as its Components have
// them. Reasons: PluginNotFound, PluginInvalid, PluginMissing, PluginChanged, VersionNotSupported, TopologyNotFound,
// ComponentNotFound, InvalidParameters, InvalidSpec, SecretNotFound, PasswordHeld, StorageClassNotFound,
// CertManagerNotFound, RepositoryNotFound, ClaimNotFound, ArchiveRefused, NameTaken, NeedNotReady, Stopped, Suspended,
// and the reasons of its Components. While components wait for others to be updated first, the message names them.
//
// A spec that is refused changes nothing: what runs goes on as it was.
package application
