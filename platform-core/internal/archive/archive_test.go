// SPDX-License-Identifier: Apache-2.0

package archive_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/archive"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/pluginfolder"
	"github.com/zeroinfra/platform-core/internal/render"
)

// keeps is an Application that keeps its archive in the BackupRepository "store". What that is refused for, and what it
// becomes, the golden cases of the plugin show.
func keeps(t *testing.T) (*platformv1.Application, *plugin.Bundle) {
	t.Helper()
	bundle, _, problems := pluginfolder.Load("../../../database-operator/plugins/postgresql/1.0.0")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Spec: platformv1.ApplicationSpec{
			Plugin: "postgresql", PluginVersion: "1.3.0", Version: "17", Topology: "replication",
			Components: []platformv1.ApplicationComponent{{Name: "postgresql", Replicas: new(int32(1))}},
			Archive:    &platformv1.Archive{RepositoryRef: platformv1.RepositoryReference{Name: "store"}},
		}}, bundle
}

func onVolume(modes ...corev1.PersistentVolumeAccessMode) archive.Place {
	return archive.Place{
		Repository: &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "store"},
			Spec: platformv1.BackupRepositorySpec{PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: "shelf"}}},
		Claim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "shelf"},
			Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes}},
	}
}

// filled are the components as they are told where the archive is, and what is refused.
func filled(t *testing.T, app *platformv1.Application, f archive.Facts) ([]platformv1.ComponentSpec, *render.Refusal) {
	t.Helper()
	specs, refusal := render.Components(f.Bundle, app)
	if refusal != nil {
		t.Fatal(refusal)
	}
	return specs, render.Join(archive.Fill(app, f, specs))
}

// What is not there is waited for, unless the pods have it already.
func TestWhatIsMissing(t *testing.T) {
	app, bundle := keeps(t)
	whole, deleted := onVolume(corev1.ReadWriteOnce), onVolume(corev1.ReadWriteOnce)
	deleted.Repository = deleted.Repository.DeepCopy()
	deleted.Repository.DeletionTimestamp = new(metav1.Now())
	unbound := whole
	unbound.Claim = nil
	share := archive.Place{Repository: &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Name: "store"},
		Spec: platformv1.BackupRepositorySpec{NFS: &platformv1.NFSRepository{Server: "nfs", Path: "/"}}}}
	before := &platformv1.ComponentArchive{Repository: "store", Folder: "_archive/shop/db", Claim: "shelf"}
	for name, test := range map[string]struct {
		place        archive.Place
		reason, says string
	}{
		"nothing is": {whole, "", ""},
		"the repository": {archive.Place{}, platformv1.ReasonRepositoryNotFound,
			`no BackupRepository "store" in namespace "shop"`},
		"one that goes":   {deleted, platformv1.ReasonRepositoryNotFound, "is being deleted"},
		"its claim":       {unbound, platformv1.ReasonClaimNotFound, `PersistentVolumeClaim "shelf", which is not there`},
		"that of a share": {share, platformv1.ReasonClaimNotFound, "the operator makes it"},
	} {
		t.Run(name, func(t *testing.T) {
			specs, refusal := filled(t, app, archive.Facts{Bundle: bundle, Place: test.place})
			if refusal != nil {
				t.Fatal(refusal)
			}
			waits := archive.Waits(app, test.place, specs)
			if test.reason == "" && (waits != nil || specs[0].Archive == nil || *specs[0].Archive != *before) {
				t.Errorf("it waits with %v, and has %+v", waits, specs[0].Archive)
			}
			if test.reason != "" && (waits == nil || waits.Reason != test.reason ||
				!strings.Contains(waits.Message, test.says) || specs[0].Archive != nil) {
				t.Errorf("it waits with %v, and has %+v", waits, specs[0].Archive)
			}
			runs := map[string]*platformv1.Component{"postgresql": {Spec: platformv1.ComponentSpec{Archive: before}}}
			specs, refusal = filled(t, app, archive.Facts{Bundle: bundle, Place: test.place, Components: runs})
			if waits := archive.Waits(app, test.place, specs); refusal != nil || waits != nil || specs[0].Archive == nil ||
				*specs[0].Archive != *before {
				t.Errorf("one that archives there has %+v, %v, %v", specs[0].Archive, refusal, waits)
			}
			elsewhere := map[string]*platformv1.Component{
				"postgresql": {Spec: platformv1.ComponentSpec{
					Archive: &platformv1.ComponentArchive{Repository: "other", Claim: "other"}}}}
			specs, _ = filled(t, app, archive.Facts{Bundle: bundle, Place: test.place, Components: elsewhere})
			if waits := archive.Waits(app, test.place, specs); (waits != nil) != (test.reason != "") {
				t.Errorf("one that is to move there waits with %v", waits)
			}
		})
	}
}

// Who looks for no claim refuses nothing for one, and the mode of a volume that is bound counts.
func TestModesOfAVolume(t *testing.T) {
	app, bundle := keeps(t)
	app.Spec.Components[0].Replicas = new(int32(2))
	unseen := onVolume()
	unseen.Claim, unseen.Unseen = nil, true
	bound := onVolume(corev1.ReadWriteOnce)
	bound.Claim.Status.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany}
	for name, test := range map[string]struct {
		place archive.Place
		says  string
	}{
		"nobody looked":   {unseen, ""},
		"of many nodes":   {onVolume(corev1.ReadWriteMany), ""},
		"bound to such":   {bound, ""},
		"of one node":     {onVolume(corev1.ReadWriteOnce), "it is to have 2 pods, which run on several"},
		"for reading":     {onVolume(corev1.ReadOnlyMany), "cannot be written to"},
		"of a single pod": {onVolume(corev1.ReadWriteOncePod), "by one pod alone"},
	} {
		t.Run(name, func(t *testing.T) {
			specs, refusal := filled(t, app, archive.Facts{Bundle: bundle, Place: test.place})
			if test.says == "" && (refusal != nil || specs[0].Archive == nil) {
				t.Errorf("it is refused: %v", refusal)
			}
			if test.says != "" && (refusal == nil || refusal.Reason != platformv1.ReasonArchiveRefused ||
				!strings.Contains(refusal.Message, test.says)) {
				t.Errorf("it is refused with %v", refusal)
			}
		})
	}
}

// A bucket brings the credentials that open it, for all that read what is supplied.
func TestWhatABucketSupplies(t *testing.T) {
	app, bundle := keeps(t)
	app.Spec.Credentials = []platformv1.Credential{
		{Name: "superuser", PasswordFrom: platformv1.SecretKeyReference{Name: "own"}}}
	f := archive.Facts{Bundle: bundle, Place: archive.Place{
		Repository: &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Name: "store"},
			Spec: platformv1.BackupRepositorySpec{
				S3: &platformv1.S3Repository{Endpoint: "https://s3.example.com/", Bucket: "logs",
					CredentialsSecretRef: platformv1.SecretReference{Name: "keys"}}}}}}
	var names []string
	for _, credential := range archive.Supplied(app, f) {
		names = append(names, credential.Name+" "+credential.PasswordFrom.Name+"/"+credential.PasswordFrom.Key)
	}
	if !slices.Equal(names, []string{"superuser own/", "archive-account keys/accessKey", "archive keys/secretKey"}) {
		t.Errorf("it is supplied %q", names)
	}
	specs, refusal := filled(t, app, f)
	if refusal != nil {
		t.Fatal(refusal)
	}
	for _, name := range []string{"archive-account", "archive"} {
		if !slices.ContainsFunc(specs[0].Credentials, func(c platformv1.ComponentCredential) bool { return c.Name == name }) {
			t.Errorf("the component has no credential %q: %+v", name, specs[0].Credentials)
		}
	}
	app.Spec.Archive = nil
	if supplied := archive.Supplied(app, f); len(supplied) != 1 {
		t.Errorf("without an archive it is supplied %+v", supplied)
	}
}

// Logs are where the instance archived that was backed up.
func TestLogs(t *testing.T) {
	app, _ := keeps(t)
	app.Spec.RestoreFrom = &platformv1.RestoreFrom{Backup: "nightly",
		Target: &platformv1.RestoreTarget{Time: "2026-01-31T12:00:00Z",
			RepositoryRef: &platformv1.RepositoryReference{Name: "store"}}}
	backup := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"},
		Spec: platformv1.BackupSpec{ApplicationRef: platformv1.ApplicationReference{Name: "former"}}}
	at, refusal, waits := archive.Logs(app, backup, onVolume(corev1.ReadWriteOnce))
	if refusal != nil || waits != nil || at == nil || at.Folder != "_archive/shop/former" || at.Claim != "shelf" {
		t.Errorf("they are in %+v, %v, %v", at, refusal, waits)
	}
	if at, _, waits := archive.Logs(app, backup, archive.Place{}); at != nil || waits == nil ||
		!strings.Contains(waits.Message, "restoreFrom.target.repositoryRef") {
		t.Errorf("they are in %+v, %v", at, waits)
	}
	encrypted := onVolume(corev1.ReadWriteOnce)
	encrypted.Repository.Spec.Encryption = &platformv1.BackupEncryption{}
	if _, refusal, _ := archive.Logs(app, backup, encrypted); refusal == nil ||
		refusal.Reason != platformv1.ReasonRestoreRefused {
		t.Errorf("in an encrypted one: %v", refusal)
	}
	app.Spec.RestoreFrom.Target.RepositoryRef = nil
	if at, refusal, waits := archive.Logs(app, backup, archive.Place{}); at != nil || refusal != nil || waits != nil {
		t.Errorf("where nobody names one they are in %+v, %v, %v", at, refusal, waits)
	}
}

// A target that names a repository says nothing more of where the logs are, and lacks nothing of what it would have to
// say otherwise.
func TestTargetInARepository(t *testing.T) {
	_, bundle := keeps(t)
	component, _ := bundle.Component("postgresql")
	base := component.Backups[slices.IndexFunc(component.Backups,
		func(m schema.BackupMethod) bool { return m.Name == "base" })]
	for name, test := range map[string]struct {
		change  func(*platformv1.RestoreTarget)
		without bool
		says    string
	}{
		"alone": {change: func(*platformv1.RestoreTarget) {}},
		"the place of the logs": {change: func(target *platformv1.RestoreTarget) {
			target.Parameters = platformv1.Parameters{"archive.bucket": "x"}
		}, says: `parameter "archive.bucket" says where the logs are, and repositoryRef does so, too`},
		"who opens it": {change: func(target *platformv1.RestoreTarget) {
			target.Parameters = platformv1.Parameters{"archive.accessKey": "me"}
		}, says: `parameter "archive.accessKey" says`},
		"what opens it": {change: func(target *platformv1.RestoreTarget) {
			target.Credentials = []platformv1.Credential{{Name: "archive"}}
		}, says: `credential "archive" is for logs that parameters lead to`},
		"a plugin that knows none": {change: func(*platformv1.RestoreTarget) {}, without: true,
			says: "finds no logs in a BackupRepository"},
		"none, and not all it says": {change: func(target *platformv1.RestoreTarget) { target.RepositoryRef = nil },
			says: `parameter "archive.accessKey" is missing`},
	} {
		t.Run(name, func(t *testing.T) {
			target := &platformv1.RestoreTarget{Time: "2026-01-31T12:00:00Z",
				RepositoryRef: &platformv1.RepositoryReference{Name: "store"}}
			test.change(target)
			declared := component.Archive
			if test.without {
				declared = nil
			}
			if err := base.Restore.Target.Check(target, declared); (err != nil) != (test.says != "") || err != nil &&
				!strings.Contains(err.Error(), test.says) {
				t.Errorf("it says %v", err)
			}
		})
	}
}
