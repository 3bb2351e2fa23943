// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// fileOf says where the file of a version is, by the names that the parameters of the plugin have behind model.
func fileOf(version *aiv1.ModelVersion) map[string]string {
	file := map[string]string{"sha256": version.SHA256}
	if version.Size != nil {
		file["size"] = strconv.FormatInt(version.Size.Value(), 10)
	}
	switch from := version.Source; {
	case from.HTTP != nil:
		file["url"] = from.HTTP.URL
	case from.PVC != nil:
		file["file"] = folderOf(from.PVC.ClaimName) + "/" + from.PVC.Path
	case from.S3 != nil:
		file["endpoint"], file["region"] = from.S3.Endpoint, from.S3.Region
		file["bucket"], file["key"] = from.S3.Bucket, from.S3.Key
	case from.OCI != nil:
		file["image"], file["path"] = from.OCI.Image, from.OCI.Path
	}
	return file
}

// serve has the servers serve a version. Which formats there can be, the plugin says.
func serve(parameters platformv1.Parameters, m *aiv1.Model, version *aiv1.ModelVersion) {
	parameters["model.format"] = platformv1.ParameterValue(m.Spec.Format)
	for name, value := range fileOf(version) {
		if value != "" {
			parameters["model."+name] = platformv1.ParameterValue(value)
		}
	}
}

// files are what pods need to read files: the claims that they are on, the Secrets of the bucket and of the registry
// that they are in, and those that a web server is shown, a token or a user and its password. Nil is what no file
// needs, and an empty name is that of nobody. authority is the Secret with the authorities that certificates lead to;
// nil where those of the system do. All files of a pod have these in common. A key of a Secret is NAME/KEY.
type files struct {
	claims                                    []string
	account, registry, token, user, authority *string
}

// filesOf is what one file needs.
func filesOf(from *aiv1.ModelSource) files {
	switch {
	case from.PVC != nil:
		return files{claims: []string{from.PVC.ClaimName}}
	case from.HTTP != nil:
		token := ""
		if ref := from.HTTP.TokenSecretRef; ref != nil {
			token = ref.Name + "/" + cmp.Or(ref.Key, "password")
		}
		return files{token: &token, user: new(secretOf(from.HTTP.CredentialsSecretRef)),
			authority: authorityOf(from.HTTP.CASecretRef)}
	case from.S3 != nil:
		return files{account: new(secretOf(from.S3.CredentialsSecretRef)),
			authority: authorityOf(from.S3.CASecretRef)}
	case from.OCI != nil:
		return files{registry: new(secretOf(from.OCI.PullSecretRef)), authority: authorityOf(from.OCI.CASecretRef)}
	}
	return files{}
}

func authorityOf(reference *platformv1.AuthorityReference) *string {
	if reference == nil {
		return nil
	}
	return new(reference.Name + "/" + cmp.Or(reference.Key, typed.AuthorityKey))
}

// modelMount begins the names of the mounts of claims with models in the plugin: each is at the folder of its name.
const modelMount = "models-"

// maxFolder is how long the name of a folder can be: with that of the mount it is the name of a volume of the pod.
const maxFolder = 40

// folderOf is the folder of a claim below the mount. Claims have names of their own, and so have their folders: one
// that cannot have the name of its claim has a digest of it.
func folderOf(claim string) string {
	folder := strings.ReplaceAll(claim, ".", "-")
	if folder == claim && len(claim) <= maxFolder {
		return claim
	}
	digest := fmt.Sprintf("-%x", sha256.Sum256([]byte(claim)))[:9]
	return strings.TrimRight(folder[:min(len(folder), maxFolder-len(digest))], "-") + digest
}

func secretOf(reference *platformv1.SecretReference) string {
	if reference == nil {
		return ""
	}
	return reference.Name
}

func nameOf(name *string) string {
	if name == nil {
		return ""
	}
	return *name
}

// login is a Secret of some files and of others.
type login struct {
	where, field string
	own, other   *string
}

// logins are the Secrets of files, each beside that of others.
func (f *files) logins(others *files) []login {
	return []login{
		{"bucket", "credentialsSecretRef", f.account, others.account},
		{"registry", "pullSecretRef", f.registry, others.registry},
		{"web server", "tokenSecretRef", f.token, others.token},
		{"web server", "credentialsSecretRef", f.user, others.user},
		{"private place", "caSecretRef", f.authority, others.authority},
	}
}

// add has pods need what another file needs as well. The field is the one that names it.
func (f *files) add(field string, own files) error {
	for _, login := range own.logins(f) {
		if login.own != nil && login.other != nil && *login.own != *login.other {
			return fmt.Errorf("%s names a version from a %s with %s %q, and that of another file is %q: all files of a pod "+
				"have the same, give both versions the same", field, login.where, login.field, *login.own, *login.other)
		}
	}
	for _, claim := range own.claims {
		if !slices.Contains(f.claims, claim) {
			f.claims = append(f.claims, claim)
		}
	}
	f.logIn(own)
	return nil
}

// logIn has pods have the Secrets of another file, of each kind that they have none of.
func (f *files) logIn(own files) {
	f.account, f.registry = cmp.Or(f.account, own.account), cmp.Or(f.registry, own.registry)
	f.token, f.user = cmp.Or(f.token, own.token), cmp.Or(f.user, own.user)
	f.authority = cmp.Or(f.authority, own.authority)
}

// provide gives pods what the files need.
func (f *files) provide(app *platformv1.Application) {
	main := &app.Spec.Components[0]
	for _, claim := range slices.Sorted(slices.Values(f.claims)) {
		main.Mounts = append(main.Mounts, platformv1.Mount{Name: modelMount + folderOf(claim),
			PersistentVolumeClaim: &platformv1.ObjectName{Name: claim}})
	}
	if name := nameOf(f.account); name != "" {
		app.Spec.Credentials = append(app.Spec.Credentials, credential("access-key", name, "accessKey"),
			credential("secret-key", name, "secretKey"))
	}
	if name := nameOf(f.registry); name != "" {
		app.Spec.Credentials = append(app.Spec.Credentials, credential("registry", name, ".dockerconfigjson"))
	}
	if name := nameOf(f.user); name != "" {
		app.Spec.Credentials = append(app.Spec.Credentials, credential("http-username", name, "username"),
			credential("http-password", name, "password"))
	}
	for _, one := range []struct {
		credential string
		from       *string
	}{{"http-token", f.token}, {"source-ca", f.authority}} {
		if name, key, found := strings.Cut(nameOf(one.from), "/"); found {
			app.Spec.Credentials = append(app.Spec.Credentials, credential(one.credential, name, key))
		}
	}
}

func credential(name, secret, key string) platformv1.Credential {
	return platformv1.Credential{Name: name,
		PasswordFrom: platformv1.SecretKeyReference{Name: secret, Key: cmp.Or(key, "password")}}
}
