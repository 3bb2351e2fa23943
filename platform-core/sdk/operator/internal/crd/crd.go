// SPDX-License-Identifier: Apache-2.0

// Package crd brings the CustomResourceDefinitions that an operator embeds into
// the cluster before anything that needs them starts.
//
// Several operators, and several replicas and versions of each, carry the same
// definitions. Each definition has a revision; a higher one is applied over a
// lower one, never the other way round. Whichever replica comes first applies:
// the write names the resourceVersion that was compared, so that of two at the
// same time one wins and the other looks again. It is not left to the leader,
// because a new replica needs the new definitions to become ready, and during a
// rolling update the old leader goes only once the new replica is ready.
package crd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// RevisionAnnotation holds the revision of a definition: a whole number that
// grows with each change of it.
const RevisionAnnotation = "platform.zeroinfra.github.com/crd-revision"

// Definition is one embedded definition and its revision.
type Definition struct {
	*apiextensionsv1.CustomResourceDefinition
	Revision int
}

// Load reads all definitions from the .yaml files of the sources. Of two with the
// same name the one with the higher revision counts.
func Load(sources ...fs.FS) ([]Definition, error) {
	var all []Definition
	index := map[string]int{}
	for _, source := range sources {
		err := fs.WalkDir(source, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") {
				return err
			}
			found, err := read(source, path)
			if err != nil {
				return fmt.Errorf("cannot read CustomResourceDefinitions from %q: %w", path, err)
			}
			for _, definition := range found {
				at, known := index[definition.Name]
				if !known {
					index[definition.Name] = len(all)
					all = append(all, definition)
				} else if definition.Revision > all[at].Revision {
					all[at] = definition
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func read(source fs.FS, path string) ([]Definition, error) {
	data, err := fs.ReadFile(source, path)
	if err != nil {
		return nil, err
	}
	var found []Definition
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(document, definition); err != nil {
			return nil, err
		}
		if definition.Kind != "CustomResourceDefinition" {
			return nil, fmt.Errorf("kind %q is not CustomResourceDefinition", definition.Kind)
		}
		revision, err := RevisionOf(definition)
		if err != nil {
			return nil, err
		}
		if revision == 0 {
			return nil, fmt.Errorf("definition %q has no annotation %s", definition.Name, RevisionAnnotation)
		}
		found = append(found, Definition{definition, revision})
	}
}

// RevisionOf returns the revision of a definition; 0 when it has none.
func RevisionOf(definition *apiextensionsv1.CustomResourceDefinition) (int, error) {
	text, found := definition.Annotations[RevisionAnnotation]
	if !found {
		return 0, nil
	}
	revision, err := strconv.Atoi(text)
	if err != nil || revision < 1 {
		return 0, fmt.Errorf("annotation %s of definition %q is %q, want a whole number from 1", RevisionAnnotation,
			definition.Name, text)
	}
	return revision, nil
}

func isEstablished(definition *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range definition.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// refusal says why a definition will not be served, when that is known.
func refusal(definition *apiextensionsv1.CustomResourceDefinition) string {
	for _, condition := range definition.Status.Conditions {
		bad := condition.Type == apiextensionsv1.NonStructuralSchema && condition.Status == apiextensionsv1.ConditionTrue ||
			condition.Type == apiextensionsv1.NamesAccepted && condition.Status == apiextensionsv1.ConditionFalse
		if bad {
			return condition.Message
		}
	}
	return ""
}
