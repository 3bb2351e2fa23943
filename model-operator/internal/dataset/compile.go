// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/transfer"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// agents is the user of the image of the agents, and the group that may write to claims.
const agents = 65532

// binary of the agents in their image.
const binary = "/agent-ops"

// fetchStep is the step that fetches a version, whose pod says how far it is.
const fetchStep = "fetch"

// sealStep is the last step of a version that is made from another one; see also aiv1.DatasetFrom.
const sealStep = "seal"

// Folders of the containers of steps.
const (
	datasetFolder = "/dataset"
	inputFolder   = "/input"
	outputFolder  = "/output"
)

// template is the inline template of an Operation.
type template struct {
	Name  string `json:"name"`
	Steps []step `json:"steps"`
}

type step struct {
	Name      string    `json:"name"`
	Needs     []string  `json:"needs"`
	Retry     retry     `json:"retry"`
	Container container `json:"container"`
}

type retry struct {
	Limit           int32   `json:"limit"`
	Backoff         string  `json:"backoff"`
	ExceptExitCodes []int32 `json:"exceptExitCodes,omitempty"`
}

type container struct {
	Image     string                `json:"image"`
	Command   []string              `json:"command,omitempty"`
	Args      []string              `json:"args,omitempty"`
	Env       []variable            `json:"env,omitempty"`
	Mounts    []mount               `json:"mounts"`
	Resources aiv1.DatasetResources `json:"resources,omitzero"`
	RunAsUser *int64                `json:"runAsUser,omitempty"`
	FSGroup   *int64                `json:"fsGroup,omitempty"`
	Outputs   map[string]string     `json:"outputs,omitempty"`
}

type variable struct {
	Name   string  `json:"name"`
	Value  string  `json:"value,omitempty"`
	Secret *secret `json:"secret,omitempty"`
}

type secret struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

type mount struct {
	Path     string `json:"path"`
	Claim    string `json:"claim"`
	SubPath  string `json:"subPath,omitempty"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// outputs of a step that prepares a version, by the constraint of their values.
var outputs = map[string]string{"digest": `=~"^[0-9a-f]{64}$"`, "files": `=~"^[0-9]+$"`, "bytes": `=~"^[0-9]+$"`}

// attempts of each step after the first: its pod may be lost with its node.
var attempts = retry{Limit: 2, Backoff: "5s"}

// agentAttempts are those of a step of the agents. A pod that was refused is the last one: the source would say to the
// next what it has said to this one.
var agentAttempts = retry{Limit: attempts.Limit, Backoff: attempts.Backoff,
	ExceptExitCodes: []int32{transfer.ExitRefused}}

// compile returns the template that prepares a version on a claim. parent is the version that it is made from, as it
// stands; nil for one with a source.
func compile(image, claim string, v *aiv1.DatasetVersion, size int64,
	parent *aiv1.DatasetVersionStatus) (string, error) {
	t := template{Name: "Prepare"}
	switch {
	case v.From != nil:
		t.Steps = made(image, claim, v.From, size, parent)
	case v.Source.PVC != nil:
		t.Steps = []step{verified(image, v)}
	default:
		t.Steps = []step{fetched(image, claim, v, size)}
	}
	data, err := json.Marshal(t)
	return string(data), err
}

// templateOf is the template that prepares a version, once check has judged it. The error names the place in the spec.
func templateOf(image, claim string, v *aiv1.DatasetVersion, size int64, parent *aiv1.DatasetVersionStatus,
	check func(string) error) (string, error) {
	text, err := compile(image, claim, v, size, parent)
	if err == nil {
		err = check(text)
	}
	if err == nil {
		return text, nil
	}
	said, at := strings.TrimPrefix(err.Error(), "line 1: "), fmt.Sprintf("spec.versions[%s].", v.Name)
	if v.From == nil || !strings.HasPrefix(said, "steps[") {
		return "", errors.New(at + said)
	}
	return "", errors.New(at + "from." + strings.Replace(said, "].container.", "].", 1))
}

// plain has a text be what it is: an expression of its author is not evaluated.
func plain(text string) string { return strings.ReplaceAll(text, "${", "$${") }

func allPlain(texts []string) []string {
	var all []string
	for _, text := range texts {
		all = append(all, plain(text))
	}
	return all
}

// agent is a step of the agents.
func agent(name, image string, args []string, mounts ...mount) step {
	return step{Name: name, Needs: []string{}, Retry: agentAttempts, Container: container{
		Image: plain(image), Command: []string{binary, "dataset"}, Args: args, Mounts: mounts,
		RunAsUser: new(int64(agents)), Outputs: outputs}}
}

// files are the arguments that name the files of a version.
func files(v *aiv1.DatasetVersion) []string {
	if m := v.Manifest; m != nil {
		return []string{"--manifest=" + m.SHA256 + ":0:" + string(m.Path)}
	}
	var all []string
	for _, file := range v.Files {
		size := int64(0)
		if file.Size != nil {
			size = file.Size.Value()
		}
		all = append(all, fmt.Sprintf("--file=%s:%d:%s", file.SHA256, size, file.Path))
	}
	return all
}

// fetched is the step that fetches a version.
func fetched(image, claim string, v *aiv1.DatasetVersion, size int64) step {
	args := append([]string{fetchStep, "--into=" + datasetFolder, "--max-bytes=" + strconv.FormatInt(size, 10),
		"--progress=:" + strconv.Itoa(transfer.Port)}, files(v)...)
	var env []variable
	if from := v.Source.HTTP; from != nil {
		args = append(args, "--url="+plain(from.URL))
		if ref := from.TokenSecretRef; ref != nil {
			env = append(env, fromSecret("DATASET_TOKEN", ref.Name, cmp.Or(ref.Key, "password")))
		}
		if ref := from.CredentialsSecretRef; ref != nil {
			env = append(env, fromSecret("DATASET_USERNAME", ref.Name, "username"),
				fromSecret("DATASET_PASSWORD", ref.Name, "password"))
		}
		env = append(env, authority(from.CASecretRef)...)
	}
	if from := v.Source.S3; from != nil {
		args = append(args, "--endpoint="+from.Endpoint, "--region="+from.Region, "--bucket="+from.Bucket,
			"--prefix="+plain(from.Prefix))
		if ref := from.CredentialsSecretRef; ref != nil {
			env = append(env, fromSecret("DATASET_ACCESS_KEY", ref.Name, "accessKey"),
				fromSecret("DATASET_SECRET_KEY", ref.Name, "secretKey"))
		}
		env = append(env, authority(from.CASecretRef)...)
	}
	s := agent(fetchStep, image, args, mount{Path: datasetFolder, Claim: claim})
	s.Container.Env, s.Container.FSGroup = env, new(int64(agents))
	return s
}

// fromSecret is a variable that the kubelet fills in.
func fromSecret(variableName, name, key string) variable {
	return variable{Name: variableName, Secret: &secret{Name: name, Key: key}}
}

// authority is the variable with the authorities that certificates lead to; none where those of the system do.
func authority(ref *platformv1.AuthorityReference) []variable {
	if ref == nil {
		return nil
	}
	return []variable{fromSecret("DATASET_CA", ref.Name, cmp.Or(ref.Key, typed.AuthorityKey))}
}

// verified is the step that reads a version where it is.
func verified(image string, v *aiv1.DatasetVersion) step {
	from := v.Source.PVC
	return agent("verify", image, append([]string{"verify", "--from=" + datasetFolder}, files(v)...),
		mount{Path: datasetFolder, Claim: from.ClaimName, SubPath: from.Path, ReadOnly: true})
}

// made are the steps that make a version from another one.
func made(image, claim string, from *aiv1.DatasetFrom, size int64, parent *aiv1.DatasetVersionStatus) []step {
	output, needs := mount{Path: outputFolder, Claim: claim}, []string{}
	var steps []step
	for _, s := range from.Steps {
		var env []variable
		for _, one := range s.Env {
			env = append(env, variable{Name: one.Name, Value: plain(one.Value)})
		}
		steps = append(steps, step{Name: s.Name, Needs: needs, Retry: attempts, Container: container{
			Image: plain(s.Image), Command: allPlain(s.Command), Args: allPlain(s.Args), Env: env,
			Resources: s.Resources, RunAsUser: s.RunAsUser,
			FSGroup: new(int64(agents)),
			Mounts:  []mount{{Path: inputFolder, Claim: parent.Claim, SubPath: parent.Path, ReadOnly: true}, output},
		}})
		needs = []string{s.Name}
	}
	last := agent(sealStep, image, []string{sealStep, "--from=" + outputFolder, "--max-bytes=" + strconv.FormatInt(size,
		10)}, output)
	last.Needs, last.Container.FSGroup = needs, new(int64(agents))
	return append(steps, last)
}

// imagesOf are those of the steps of a version.
func imagesOf(from *aiv1.DatasetFrom) []string {
	var all []string
	for _, s := range from.Steps {
		all = append(all, s.Image)
	}
	return all
}

// sizeOf is the size of the claim of a version, in bytes; 0 for one that has none of its own.
func sizeOf(ds *aiv1.Dataset, v *aiv1.DatasetVersion) int64 {
	if !hasOwnClaim(v) {
		return 0
	}
	size := cmp.Or(v.Size, &ds.Spec.Storage.Size)
	return size.Value()
}

// fetches says whether a version is fetched to its claim.
func fetches(v *aiv1.DatasetVersion) bool { return v.Source != nil && v.Source.PVC == nil }

// hasOwnClaim says whether a claim is made for a version.
func hasOwnClaim(v *aiv1.DatasetVersion) bool { return v.Source == nil || v.Source.PVC == nil }
