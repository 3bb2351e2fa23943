// SPDX-License-Identifier: Apache-2.0

// Package pluginfolder works on the folder form of a plugin, "<name>/<version>", without a
// cluster: check, render, test against golden files, and package as ConfigMaps. It is what
// zictl and the tests of the plugins share.
package pluginfolder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/archive"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/render"
)

// Settings that goldens and previews are rendered with.
func Settings() render.Settings {
	return render.Settings{AgentImage: "zeroinfra/agent:preview", OperatorNamespace: "zeroinfra-system"}
}

// absolute is the path of a folder that is there: its name is the version, and that of the folder above the plugin's
// name.
func absolute(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("cannot find folder %q: %w", dir, err)
	}
	if info, err := os.Stat(absolute); err != nil || !info.IsDir() {
		return "", fmt.Errorf("cannot read folder %q: it is no folder", dir)
	}
	if versions, _ := filepath.Glob(filepath.Join(absolute, "*", "manifest.yaml")); len(versions) > 0 {
		return "", fmt.Errorf("cannot read folder %q: it holds versions: name one, such as %q", dir,
			filepath.Join(dir, filepath.Base(filepath.Dir(versions[0]))))
	}
	return absolute, nil
}

// Load reads and checks a plugin. A version that extends another one is put over that, whose folder is beside. Errors
// name the files of the folders.
func Load(dir string) (*plugin.Bundle, map[plugin.Part]plugin.Source, []plugin.LoadError) {
	absolute, err := absolute(dir)
	if err != nil {
		return nil, nil, []plugin.LoadError{{File: dir, Message: err.Error()}}
	}
	versions, version := filepath.Split(absolute)
	bundle, sources, errs := load(os.DirFS(versions), filepath.Base(versions), version)
	for i := range errs {
		errs[i].File = filepath.Join(dir, errs[i].File)
	}
	return bundle, sources, errs
}

func load(versions fs.FS, name, version string) (*plugin.Bundle, map[plugin.Part]plugin.Source, []plugin.LoadError) {
	folder, errs := plugin.LoadVersion(versions, name, version)
	if len(errs) > 0 {
		return nil, nil, errs
	}
	bundle, errs := plugin.Load(folder.Sources)
	if bundle != nil && len(bundle.Warnings) > 0 {
		// What is made now has no instances that would be left without it.
		bundle, errs = nil, bundle.Warnings
	}
	for i := range errs {
		errs[i] = folder.Locate(errs[i])
	}
	if bundle != nil && platformv1.CanonicalPluginVersion(version) != bundle.Manifest.Version {
		return nil, folder.Sources, []plugin.LoadError{{
			File: "manifest.yaml",
			Message: fmt.Sprintf("version is %q and the folder is called %q: they must be the same", bundle.Manifest.Version,
				version),
		}}
	}
	return bundle, folder.Sources, errs
}

// ReadApplication reads an Application; unknown fields are errors.
func ReadApplication(data []byte, file string) (*platformv1.Application, error) {
	app := &platformv1.Application{}
	doc, problems := document.Parse(string(data))
	var head metav1.TypeMeta
	if doc != nil && yaml.Unmarshal(data, &head) == nil && head.Kind == "Application" {
		problems = doc.Check(reflect.TypeOf(*app), nil)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("cannot read Application: %s:%d: %s", file, problems[0].Line, problems[0].Message)
	}
	if err := yaml.Unmarshal(data, app); err != nil {
		return nil, fmt.Errorf("cannot read Application %q: %w", file, err)
	}
	if app.Kind != "Application" || app.APIVersion != platformv1.GroupVersion.String() {
		return nil, fmt.Errorf("cannot read Application %q: it is %s %s, not %s Application", file, app.APIVersion, app.Kind,
			platformv1.GroupVersion)
	}
	if app.Name == "" {
		return nil, fmt.Errorf("cannot read Application %q: metadata.name is missing", file)
	}
	if app.Namespace == "" {
		app.Namespace = "default"
	}
	return app, nil
}

// ReadInput reads an Application, and after it, as further documents, what there is of that which it names: the
// BackupRepository of its archive, and the claim that is on.
func ReadInput(data []byte, file string) (*platformv1.Application, archive.Place, error) {
	var place archive.Place
	documents := strings.Split(string(data), "\n---\n")
	app, err := ReadApplication([]byte(documents[0]), file)
	if err != nil {
		return nil, place, err
	}
	for _, text := range documents[1:] {
		var head metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &head); err != nil {
			return nil, place, fmt.Errorf("cannot read what Application %q names: %w", file, err)
		}
		var into metav1.Object
		switch head.Kind {
		case "BackupRepository":
			place.Repository = &platformv1.BackupRepository{}
			into = place.Repository
		case "PersistentVolumeClaim":
			place.Claim = &corev1.PersistentVolumeClaim{}
			into = place.Claim
		default:
			return nil, place, fmt.Errorf("cannot read what Application %q names: a %q is no BackupRepository and no "+
				"PersistentVolumeClaim", file, head.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			return nil, place, fmt.Errorf("cannot read the %s in %q: %w", head.Kind, file, err)
		}
		into.SetNamespace(app.Namespace)
	}
	return app, place, nil
}

// Render returns what an Application becomes, with its archive in a place, or the refusal, as YAML documents.
func Render(bundle *plugin.Bundle, app *platformv1.Application, place archive.Place) ([]byte, *render.Refusal, error) {
	if app.Spec.Plugin != bundle.Manifest.Name ||
		platformv1.CanonicalPluginVersion(app.Spec.PluginVersion) != bundle.Manifest.Version {
		return nil, nil, fmt.Errorf("cannot render Application %q: it asks for plugin %s %s, and this is %s %s",
			app.Name, app.Spec.Plugin, app.Spec.PluginVersion, bundle.Manifest.Name, bundle.Manifest.Version)
	}
	objects, refusal := objectsOf(bundle, app, place)
	if refusal != nil {
		data, err := yaml.Marshal(map[string]any{
			"refused": map[string]string{"reason": refusal.Reason, "message": refusal.Message}})
		return data, refusal, err
	}
	data, err := Write(objects)
	return data, nil, err
}

func objectsOf(bundle *plugin.Bundle, app *platformv1.Application, place archive.Place) ([]runtime.Object,
	*render.Refusal) {
	specs, refusal := render.Components(bundle, app)
	if refusal != nil {
		return nil, refusal
	}
	if refusal := render.Join(archive.Fill(app, archive.Facts{Bundle: bundle, Place: place}, specs)); refusal != nil {
		return nil, refusal
	}
	if waits := archive.Waits(app, place, specs); waits != nil {
		return nil, waits
	}
	return render.ObjectsOf(bundle, Settings(), app, specs)
}

// Write writes objects as YAML documents, without the empty fields that the Go types add.
func Write(objects []runtime.Object) ([]byte, error) {
	var out bytes.Buffer
	for _, object := range objects {
		data, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		var tree map[string]any
		if err := json.Unmarshal(data, &tree); err != nil {
			return nil, err
		}
		prune(tree)
		if data, err = yaml.Marshal(tree); err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(data)
	}
	return out.Bytes(), nil
}

// prune drops empty maps, but those that mean something by being there, and nulls. The types of plans add none.
func prune(tree map[string]any) {
	for key, value := range tree {
		if key == "plan" {
			continue
		}
		switch node := value.(type) {
		case nil:
			delete(tree, key)
		case map[string]any:
			prune(node)
			if len(node) == 0 && key != "emptyDir" {
				delete(tree, key)
			}
		case []any:
			for _, element := range node {
				if child, ok := element.(map[string]any); ok {
					prune(child)
				}
			}
		}
	}
}
