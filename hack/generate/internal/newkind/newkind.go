// SPDX-License-Identifier: Apache-2.0

// Package newkind writes what a new typed kind takes: its types, its folder in internal/kind, tests, sample, page, and
// its entries in files that are there. What controller-gen and the charts make of that is left to them.
package newkind

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/zeroinfra/hack/generate/internal/repo"
)

// Request is what a person asks for.
type Request struct {
	// Operator is the folder of an operator, such as database-operator.
	Operator string
	// Kind is its name in UpperCamelCase.
	Kind string
	// Plugin is one of the operator's, by its name.
	Plugin string
	// Topology of the plugin that objects of the kind have; its first one when empty.
	Topology string
	// Plural of the kind in lower case, as in its definition; by the rules of English when empty.
	Plural string
}

// maxApplication is how long the name of an Application may be.
const maxApplication = 38

// subject is what templates are filled in from.
type subject struct {
	repo.Operator
	// Kind in UpperCamelCase, Lower and Plural in lower case, and A with its article.
	Kind, Lower, Plural, A string
	// Alias that the operator's files import its types by, and Receiver of the methods.
	Alias, Receiver string
	// MaxName is how many characters the name of an object has at most.
	MaxName int
	facts
}

// Write writes the kind into the repository at root and returns the paths of all files that it wrote. It refuses what
// cannot be, and then writes nothing.
func Write(root string, r Request) ([]string, error) {
	s, err := check(root, r)
	if err != nil {
		return nil, err
	}
	files, err := s.files(root)
	if err != nil {
		return nil, err
	}
	for path := range files {
		if exists(filepath.Join(root, path)) {
			return nil, fmt.Errorf("the kind %q would replace %s, which is there: choose another name", s.Kind, path)
		}
	}
	edited, err := s.edit(root)
	if err != nil {
		return nil, err
	}
	maps.Copy(files, edited)
	paths := slices.Sorted(maps.Keys(files))
	for _, path := range paths {
		target := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(target, files[path], 0o644); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// check refuses what cannot be, and returns what is known of the rest.
func check(root string, r Request) (*subject, error) {
	at := slices.IndexFunc(repo.Operators, func(o repo.Operator) bool { return o.Name() == r.Operator })
	if at < 0 {
		var names []string
		for _, o := range repo.Operators {
			names = append(names, o.Name())
		}
		return nil, fmt.Errorf("there is no operator %q: it is one of %s", r.Operator, strings.Join(names, ", "))
	}
	s := &subject{Operator: repo.Operators[at], Kind: r.Kind, Lower: strings.ToLower(r.Kind)}
	if err := checkName(r.Kind); err != nil {
		return nil, err
	}
	if err := checkTaken(root, r.Operator, r.Kind); err != nil {
		return nil, err
	}
	s.Plural = cmp.Or(r.Plural, plural(s.Lower))
	if !lowerWord.MatchString(s.Plural) {
		return nil, fmt.Errorf("the plural %q is not lower case: write it as in %q", s.Plural, plural(s.Lower))
	}
	s.A, s.Receiver, s.MaxName = "a "+s.Kind, s.Lower[:1], maxApplication-1-len(s.Lower)
	if strings.Contains("aeiou", s.Lower[:1]) {
		s.A = "an " + s.Kind
	}
	var err error
	if s.Alias, err = alias(root, r.Operator); err != nil {
		return nil, err
	}
	if s.facts, err = readPlugin(root, r.Operator, r.Plugin, r.Topology); err != nil {
		return nil, err
	}
	return s, nil
}

// Path of a file of the operator.
func (s *subject) path(elements ...string) string {
	return filepath.Join(append([]string{s.Name()}, elements...)...)
}

// alias is the name by which the operator's command imports its types, such as databasev1.
func alias(root, operator string) (string, error) {
	path := filepath.Join(operator, "cmd", "main.go")
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return "", err
	}
	imported := regexp.MustCompile(`(?m)^\t(\w+) "github\.com/zeroinfra/` + regexp.QuoteMeta(operator) + `/api/v1"$`)
	match := imported.FindSubmatch(data)
	if match == nil {
		return "", fmt.Errorf("%s imports no types of its own: it has to import github.com/zeroinfra/%s/api/v1",
			path, operator)
	}
	return string(match[1]), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
