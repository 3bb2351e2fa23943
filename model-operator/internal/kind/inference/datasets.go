// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// dataset is the kind of which Inferences mount versions.
var dataset = aiv1.GroupVersion.WithKind("Dataset")

// datasetMount begins the names of the mounts of Datasets in the plugin: each is at the folder of its name.
const datasetMount = "data-"

// maxMounts of a pod.
const maxMounts = 8

// datasetsAnnotation of the Application has the versions that its pods mount, as the status of the Inference tells
// them.
const datasetsAnnotation = "ai.zeroinfra.github.com/datasets"

// datasetReference is what an entry of spec.datasets names.
func datasetReference(i *aiv1.Inference, n int) typed.Reference {
	return typed.Reference{GVK: dataset, Name: i.Spec.Datasets[n].Name, Field: fmt.Sprintf("spec.datasets[%d]", n)}
}

// mountDatasets has the pods mount the versions that are named, as far as their Datasets are there to read.
func mountDatasets(app *platformv1.Application, i *aiv1.Inference, referents typed.Referents) error {
	var all []aiv1.InferenceDatasetStatus
	main := &app.Spec.Components[0]
	for n, named := range i.Spec.Datasets {
		reference := datasetReference(i, n)
		ds, found := referents[reference].(*aiv1.Dataset)
		if !found {
			continue
		}
		version, err := readable(reference.Field, named.Version, ds)
		if err != nil {
			return err
		}
		main.Mounts = append(main.Mounts, platformv1.Mount{Name: datasetMount + ds.Name, SubPath: version.Path,
			PersistentVolumeClaim: &platformv1.ObjectName{Name: version.Claim}})
		all = append(all, aiv1.InferenceDatasetStatus{Name: ds.Name, Version: version.Name, Digest: version.Digest})
	}
	if n := len(main.Mounts); n > maxMounts {
		return fmt.Errorf("spec.datasets: Datasets and files of models are on %d volumes, and a pod mounts at most %d: name "+
			"fewer", n, maxMounts)
	}
	if len(all) == 0 {
		return nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if app.Annotations == nil {
		app.Annotations = map[string]string{}
	}
	app.Annotations[datasetsAnnotation] = string(text)
	return nil
}

// readable finds the version that is to be mounted, once every file of it is there.
func readable(field string, name aiv1.DatasetVersionName, ds *aiv1.Dataset) (*aiv1.DatasetVersionStatus, error) {
	if !slices.ContainsFunc(ds.Spec.Versions, func(v aiv1.DatasetVersion) bool { return v.Name == name }) {
		return nil, typed.Refuse(platformv1.ReasonReferenceNotFound, fmt.Sprintf(
			"%s.version is %q, which Dataset %q does not have: add it there, or name another version", field, name, ds.Name))
	}
	known := &aiv1.DatasetVersionStatus{}
	if at := slices.IndexFunc(ds.Status.Versions,
		func(v aiv1.DatasetVersionStatus) bool { return v.Name == name }); at >= 0 {
		known = &ds.Status.Versions[at]
	}
	if known.Phase == aiv1.DatasetReady && known.Claim != "" {
		return known, nil
	}
	phase, then := cmp.Or(known.Phase, aiv1.DatasetPending), "it is mounted once it is Ready"
	if phase == aiv1.DatasetExpired {
		then = "name another version"
	}
	if known.Message != "" {
		then = known.Message + "; " + then
	}
	return nil, typed.Refuse(platformv1.ReasonReferenceNotReady, fmt.Sprintf(
		"%s names version %q of Dataset %q, which is %s: %s", field, name, ds.Name, phase, then))
}

// mountedDatasets are those that the pods of an Application mount, once it is as its spec asks.
func mountedDatasets(app *platformv1.Application) []aiv1.InferenceDatasetStatus {
	var all []aiv1.InferenceDatasetStatus
	if text := app.Annotations[datasetsAnnotation]; text != "" && json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	return all
}
