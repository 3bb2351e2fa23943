// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"encoding/json"
	"fmt"
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// adaptersParameter of the plugin has the files of adapters, as a JSON list.
const adaptersParameter = "model.adapters"

// maxParameter is how long a parameter can be, in bytes.
const maxParameter = 4096

// adaptersAnnotation of the Application has the versions that its pods have as adapters, as the status of the Inference
// tells them.
const adaptersAnnotation = "ai.zeroinfra.github.com/adapters"

// fullScale is the change that an adapter was trained for, in percent.
const fullScale = 100

// adapterReference is what an entry of spec.adapters names.
func adapterReference(i *aiv1.Inference, n int) typed.Reference {
	return typed.Reference{GVK: model, Name: i.Spec.Adapters[n].Name, Field: fmt.Sprintf("spec.adapters[%d]", n)}
}

// adapt has the servers use the adapters that are named. Unless the Models of all are there to read, none is used: the
// number of an adapter is its place. Their files add to what pods need.
func adapt(app *platformv1.Application, i *aiv1.Inference, referents typed.Referents, files *files) error {
	var all []aiv1.InferenceAdapterStatus
	var list []map[string]any
	for n := range i.Spec.Adapters {
		reference, named := adapterReference(i, n), &i.Spec.Adapters[n]
		m, found := referents[reference].(*aiv1.Model)
		if !found {
			return nil
		}
		if err := fits(reference.Field, i, m, app.Spec.Components[0].Parameters); err != nil {
			return err
		}
		version, err := usable(reference.Field, i, new(named.Ref()), m)
		if err == nil {
			version, err = placed(reference.Field, m, version)
		}
		if err != nil {
			return err
		}
		if err := files.add(reference.Field, filesOf(&version.Source)); err != nil {
			return err
		}
		list = append(list, described(version, named.Scale))
		all = append(all, aiv1.InferenceAdapterStatus{ID: int32(n), InferenceModelStatus: aiv1.InferenceModelStatus{
			Name: m.Name, Version: version.Name, Digest: "sha256:" + version.SHA256}})
	}
	if len(all) == 0 {
		return nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if len(text) > maxParameter {
		return fmt.Errorf("spec.adapters: where their files are takes %d bytes in all, and %d is the most: name fewer, or "+
			"have their Models use shorter URLs", len(text), maxParameter)
	}
	app.Spec.Components[0].Parameters[adaptersParameter] = platformv1.ParameterValue(text)
	if text, err = json.Marshal(all); err != nil {
		return err
	}
	app.Annotations[adaptersAnnotation] = string(text)
	return nil
}

// described is a file as the agent reads it, with the scale in percent.
func described(version *aiv1.ModelVersion, scale *int32) map[string]any {
	entry := map[string]any{"scale": int32(fullScale)}
	if scale != nil {
		entry["scale"] = *scale
	}
	for name, value := range fileOf(version) {
		if value != "" {
			entry[name] = value
		}
	}
	if version.Size != nil {
		entry["size"] = version.Size.Value()
	}
	return entry
}

// fits refuses an adapter of another model than those that are served, or in another format.
func fits(field string, i *aiv1.Inference, m *aiv1.Model, served platformv1.Parameters) error {
	if format := string(served["model.format"]); string(m.Spec.Format) != format {
		return fmt.Errorf("%s names Model %q, whose format is %s, and that of its base is %s: an adapter has the format of "+
			"its base, name another one", field, m.Name, m.Spec.Format, format)
	}
	bases := []string{i.Spec.ModelRef.Name}
	if canary := i.Spec.Canary; canary != nil {
		bases = append(bases, canary.ModelRef.Name)
	}
	for _, base := range bases {
		if !slices.ContainsFunc(m.Spec.Requires, func(r aiv1.ModelReference) bool { return r.Name == base }) {
			return fmt.Errorf("%s names Model %q, which does not require Model %q, and that is served: an adapter is of use "+
				"with its base alone, name another adapter, or the base in spec.requires of %q", field, m.Name, base, m.Name)
		}
	}
	return nil
}

// servedAdapters are those that the pods of an Application have, once it is as its spec asks.
func servedAdapters(app *platformv1.Application) []aiv1.InferenceAdapterStatus {
	var all []aiv1.InferenceAdapterStatus
	if text := app.Annotations[adaptersAnnotation]; text != "" && json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	return all
}
