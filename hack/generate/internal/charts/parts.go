// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"sigs.k8s.io/yaml"
)

const (
	// pluginFolder is where a chart has its plugins, a file for each version with its ConfigMaps.
	pluginFolder = "plugins"
	// separator is between the ConfigMaps of a file, and dataBegins and dataEnds are around the data of one, as they are
	// packaged.
	separator  = "\n---\n"
	dataBegins = "\ndata:\n"
	dataEnds   = "\nimmutable: true\n"
)

// part is a ConfigMap of a plugin as far as it is looked at here.
type part struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Data map[string]string `json:"data"`
}

// derived is what a ConfigMap has in the place of data that is much like that of an earlier one: the template of the
// chart makes it whole again. Versions of a plugin are whole, and most of them is what an earlier one has; what Helm
// keeps of a release has no room for each of them.
type derived struct {
	// From is the name of the ConfigMap with the earlier data.
	From string `json:"from"`
	// Edits are, by key of the data, what to change of the value that this key has there. Without any the data is the
	// same.
	Edits map[string][]edit `json:"edits,omitempty"`
}

// edit puts a text in the place of the bytes of an earlier one from Start to before End. Those of one text are in order
// and do not overlap.
type edit struct {
	Start int    `json:"start"`
	End   int    `json:"end"`
	Text  string `json:"text,omitempty"`
}

// once has what several parts of plugins have in common in the chart once.
func (t tree) once() error {
	former := map[string][]part{}
	for _, path := range slices.Sorted(maps.Keys(t)) {
		if filepath.Dir(path) != pluginFolder {
			continue
		}
		documents := strings.Split(string(t[path]), separator)
		for i, document := range documents {
			begin := strings.Index("\n"+document, dataBegins)
			if begin < 0 {
				continue
			}
			end := strings.LastIndex(document, dataEnds)
			var p part
			if err := yaml.Unmarshal([]byte(document), &p); err != nil || end < begin || p.Metadata.Name == "" {
				return fmt.Errorf("%s: part %d is no ConfigMap as it is packaged: %v", path, i, err)
			}
			what := p.Metadata.Name[:strings.LastIndex(p.Metadata.Name, "-")+1]
			shorter, err := p.after(former[what], end-begin)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if shorter != "" {
				documents[i] = document[:begin] + shorter + document[end+1:]
			}
			former[what] = append(former[what], p)
		}
		t[path] = []byte(strings.Join(documents, separator))
	}
	return nil
}

// after is the shortest text that makes the data of a part out of that of one of these, below so many bytes; empty
// where there is none.
func (p part) after(former []part, limit int) (string, error) {
	shortest := ""
	for _, f := range former {
		text, err := yaml.Marshal(p.from(f))
		if err != nil {
			return "", err
		}
		if len(text) < cmp.Or(len(shortest), limit) {
			shortest = string(text)
		}
	}
	return shortest, nil
}

// from is how a part comes of another one.
func (p part) from(f part) derived {
	d := derived{From: f.Metadata.Name}
	if maps.Equal(p.Data, f.Data) {
		return d
	}
	d.Edits = map[string][]edit{}
	for key, text := range p.Data {
		d.Edits[key] = []edit{}
		for _, e := range udiff.Lines(f.Data[key], text) {
			d.Edits[key] = append(d.Edits[key], edit{Start: e.Start, End: e.End, Text: e.New})
		}
	}
	return d
}
