// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// versionsOf is the relay plugin with versions that extend its 1.0.0. Files are by their path.
func versionsOf(t *testing.T, files map[string]string) fstest.MapFS {
	t.Helper()
	versions := fstest.MapFS{}
	root := filepath.Join("testdata", "relay")
	err := filepath.WalkDir(root, func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.Contains(file, "testdata"+string(filepath.Separator)+"relay"+
			string(filepath.Separator)+"1.0.0"+string(filepath.Separator)+"testdata") {
			return err
		}
		data, err := os.ReadFile(file)
		name, _ := filepath.Rel(root, file)
		versions[filepath.ToSlash(name)] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		versions[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return versions
}

// loaded puts a version together and loads it as an operator would, with errors where they are from.
func loaded(t *testing.T, files map[string]string, version string) (*Bundle, map[Part]Source, []LoadError) {
	t.Helper()
	folder, errs := LoadVersion(versionsOf(t, files), "relay", version)
	if len(errs) > 0 {
		return nil, nil, errs
	}
	bundle, errs := Load(folder.Sources)
	for i := range errs {
		errs[i] = folder.Locate(errs[i])
	}
	return bundle, folder.Sources, errs
}

const extending = "version: 1.1.0\nextends: 1.0.0\nallowed-upgrade-from: 1.0.0\n"

// A version holds only what differs, and what comes of it is whole: the engine reads nothing that tells of the other
// one.
func TestExtends(t *testing.T) {
	bundle, sources, errs := loaded(t, map[string]string{
		"1.1.0/manifest.yaml":         extending,
		"1.1.0/components.yaml":       "components:\n  - name: hub\n    sets: {default: 3}\n",
		"1.1.0/params/hub.cue":        "#Parameters: {\n\tnewcomer?: int & >=1 & <=9\n}\n",
		"1.1.0/params/hub.yaml":       "defaults: {newcomer: 4}\n",
		"1.1.0/operations/Nudge.yaml": "name: Nudge\nsteps:\n  - name: restart\n    agent: {call: Restart}\n",
		"1.2.0/manifest.yaml": "version: 1.2.0\nextends: 1.1.0\nallowed-upgrade-from: 1.1.0\nwithout: " +
			"[operations/Nudge.yaml]\n",
	}, "1.1.0")
	if len(errs) > 0 {
		t.Fatal(list(errs))
	}
	manifest := bundle.Manifest
	if manifest.Version != "1.1.0" || manifest.Domain == "" || len(manifest.SupportedVersions) == 0 ||
		len(manifest.AllowedUpgradeFrom) != 1 {
		t.Errorf("the manifest is %+v", manifest)
	}
	for part, source := range sources {
		if source.Version != "1.1.0" || source.Name != SourceName("relay", part, "1.1.0") {
			t.Errorf("the %s part is %s of version %s", part, source.Name, source.Version)
		}
		for key, text := range source.Data {
			if strings.Contains(text, "$patch") || key == "extends" || key == "without" {
				t.Errorf("%s of the %s part tells of another version:\n%s", key, part, text)
			}
		}
	}
	if _, ok := bundle.Operations["Nudge"]; !ok {
		t.Errorf("it has the operations %v", bundle.Operations)
	}
	if hub, ok := bundle.Component("hub"); !ok || hub.Sets.Default != 3 || hub.Sets.Max != 4 {
		t.Errorf("the hub is %+v", hub)
	}
	last, _, errs := loaded(t, map[string]string{
		"1.1.0/manifest.yaml":         extending,
		"1.1.0/components.yaml":       "components:\n  - name: hub\n    sets: {default: 3}\n",
		"1.1.0/operations/Nudge.yaml": "name: Nudge\nsteps:\n  - name: restart\n    agent: {call: Restart}\n",
		"1.2.0/manifest.yaml": "version: 1.2.0\nextends: 1.1.0\nallowed-upgrade-from: 1.1.0\nwithout: " +
			"[operations/Nudge.yaml]\n",
	}, "1.2.0")
	if len(errs) > 0 {
		t.Fatal(list(errs))
	}
	if hub, _ := last.Component("hub"); hub.Sets.Default != 3 || last.Operations["Nudge"].Name != "" ||
		last.Manifest.AllowedUpgradeFrom[0] != "1.1.0" {
		t.Errorf("over two versions it is %+v with %v", last.Manifest, last.Operations)
	}
}

func TestExtendsRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		says  string
	}{
		"an unknown version": {map[string]string{"1.1.0/manifest.yaml": "version: 1.1.0\nextends: 0.9.0\n"},
			"manifest.yaml:2: extends names version 0.9.0, which is not there: no folder ../0.9.0 has a manifest.yaml"},
		"a path": {map[string]string{"1.1.0/manifest.yaml": "version: 1.1.0\nextends: ../../secret\n"},
			`manifest.yaml:2: extends is "../../secret": it must be another version of this plugin`},
		"itself": {map[string]string{"1.1.0/manifest.yaml": "version: 1.1.0\n\nextends: 1.1.0\n"},
			"manifest.yaml:3: extends goes round in a circle: 1.1.0 extends 1.1.0"},
		"a circle": {map[string]string{"1.1.0/manifest.yaml": "version: 1.1.0\nextends: 1.2.0\n",
			"1.2.0/manifest.yaml": "version: 1.2.0\nextends: 1.1.0\n"},
			"../1.2.0/manifest.yaml:2: extends goes round in a circle: 1.1.0 extends 1.2.0 extends 1.1.0"},
		"another version's name": {map[string]string{"1.1.0/manifest.yaml": "version: 1.1.0\nextends: 1.2.0\n",
			"1.2.0/manifest.yaml": "version: 1.3.0\nextends: 1.0.0\n"},
			`../1.2.0/manifest.yaml:1: version is "1.3.0" and the folder is called "1.2.0"`},
		"a file that is not there": {map[string]string{"1.1.0/manifest.yaml": extending +
			"without: [operations/None.yaml]\n"},
			"manifest.yaml:4: without names operations/None.yaml, which version 1.0.0 does not have"},
		"the manifest": {map[string]string{"1.1.0/manifest.yaml": extending + "without: [manifest.yaml]\n"},
			"manifest.yaml:4: without names manifest.yaml"},
		"without a base": {map[string]string{"1.1.0/manifest.yaml": "version: 1.1.0\nwithout: [params/hub.cue]\n"},
			"manifest.yaml:2: without is for a version that extends another one"},
		"an element that is not there": {map[string]string{"1.1.0/manifest.yaml": extending,
			"1.1.0/components.yaml": "components:\n  - name: spoke\n    $patch: delete\n"},
			`components.yaml:2: components has no "spoke" in the version that this one extends`},
		"what is wrong in the change": {map[string]string{"1.1.0/manifest.yaml": extending,
			"1.1.0/components.yaml": "components:\n  - name: hub\n\n    scaling: Never\n"},
			"components.yaml:4: "},
		"what is wrong in the base": {map[string]string{"1.1.0/manifest.yaml": "version: 1.1.0\nextends: 1.2.0\n",
			"1.1.0/components.yaml": "components:\n  - name: hub\n    sets: {default: 3}\n",
			"1.2.0/manifest.yaml":   "version: 1.2.0\nextends: 1.0.0\n",
			"1.2.0/components.yaml": "components:\n  - name: edge\n    scaling: Never\n"},
			"../1.2.0/components.yaml:3: "},
		"a base that cannot be read": {map[string]string{"1.1.0/manifest.yaml": "version: 1.1.0\nextends: 1.2.0\n",
			"1.2.0/manifest.yaml": "version: 1.2.0\nextends: 1.0.0\n", "1.2.0/extra": ""},
			"../1.2.0/extra: the file is not known"},
		"a schema": {map[string]string{"1.1.0/manifest.yaml": extending,
			"1.1.0/params/hub.cue": "\n#Parameters: {\n\tnew?: nothing\n}\n"},
			"params/hub.cue:3: the schema is not valid CUE"},
		"a domain": {map[string]string{"1.1.0/manifest.yaml": extending + "domain: sea\n"},
			`manifest.yaml:4: domain is "sea"`},
	} {
		_, _, errs := loaded(t, tc.files, "1.1.0")
		if !strings.Contains("\n"+list(errs), "\n  "+tc.says) {
			t.Errorf("%s: got\n%s\nwant %q", name, list(errs), tc.says)
		}
	}
	_, errs := LoadFolder(fstest.MapFS{"manifest.yaml": {Data: []byte(extending)}}, "relay")
	if !strings.Contains(list(errs), "manifest.yaml:2: the folders of other versions are not at hand") {
		t.Errorf("a folder by itself gives %s", list(errs))
	}
}
