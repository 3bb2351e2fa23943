// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zeroinfra/agents/internal/modelfile"
	"github.com/zeroinfra/agents/internal/modelserver"
	"github.com/zeroinfra/agents/internal/planfile"
)

// modelFile says which file is wanted and where it is.
type modelFile struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size,omitempty"`
	// File that somebody else keeps.
	File string `json:"file,omitempty"`
	URL  string `json:"url,omitempty"`
	// Endpoint, Region, Bucket and Key name an object of a storage that speaks S3.
	Endpoint string `json:"endpoint,omitempty"`
	Region   string `json:"region,omitempty"`
	Bucket   string `json:"bucket,omitempty"`
	Key      string `json:"key,omitempty"`
	// Image and Path name a file of an image.
	Image string `json:"image,omitempty"`
	Path  string `json:"path,omitempty"`
}

// modelAdapter is a file that changes what the model says.
type modelAdapter struct {
	modelFile
	// Scale in percent.
	Scale int `json:"scale"`
}

// modelFiles are the flags that say which files a server is started with.
type modelFiles struct {
	model                     modelFile
	adapters, mounted         string
	account, key, registry    string
	ca                        string
	token, username, password string
}

func (m *modelFiles) flags(flags *pflag.FlagSet) {
	flags.StringVar(&m.model.File, "file", "", "file of the model that somebody else keeps")
	flags.StringVar(&m.model.SHA256, "sha256", "", "digest of the file in hexadecimal digits")
	flags.Int64Var(&m.model.Size, "size", 0,
		"size of the file in bytes, which is then checked; 0 where it is not known")
	flags.StringVar(&m.model.URL, "url", "", "http or https URL of the file")
	flags.StringVar(&m.model.Endpoint, "endpoint", "", "URL of a storage that speaks S3 and has the file")
	flags.StringVar(&m.model.Region, "region", "", "region that requests are signed for")
	flags.StringVar(&m.model.Bucket, "bucket", "", "bucket with the file")
	flags.StringVar(&m.model.Key, "key", "", "name of the object in the bucket")
	flags.StringVar(&m.model.Image, "image", "", "image with the file, with the host of its registry")
	flags.StringVar(&m.model.Path, "path", "", "path of the file in the image")
	flags.StringVar(&m.adapters, "adapters", "",
		"JSON list of LoRA adapters: objects with the fields sha256, size, those of one source, and scale in percent")
	flags.StringVar(&m.mounted, "mounted", "/models", "folder that the files of adapters are below")
	flags.StringVar(&m.account, "access-key", "",
		"credential that has the name of the account; requests are not signed when empty")
	flags.StringVar(&m.key, "secret-key", "", "credential that has its key")
	flags.StringVar(&m.registry, "registry", "",
		"credential that has the content of a Secret of the type kubernetes.io/dockerconfigjson; none when empty")
	flags.StringVar(&m.ca, "ca", "",
		"credential that has certificates of authorities in PEM, which count beside those of the system; none when empty")
	flags.StringVar(&m.token, "http-token", "", "credential that has the bearer token for --url; none when empty")
	flags.StringVar(&m.username, "http-username", "", "credential that has the user for --url; none when empty")
	flags.StringVar(&m.password, "http-password", "", "credential that has the password of that user")
}

// into has a starter start its server with the files.
func (m *modelFiles) into(s *modelserver.Starter, dirs planfile.Dirs) error {
	var err error
	if s.Model, err = m.file(&m.model, dirs); err != nil || m.adapters == "" {
		return err
	}
	var adapters []modelAdapter
	decoder := json.NewDecoder(bytes.NewReader([]byte(m.adapters)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&adapters); err != nil {
		return fmt.Errorf("--adapters is no list of adapters: %w", err)
	}
	if len(adapters) > modelserver.MaxAdapters {
		return fmt.Errorf("--adapters has %d: a server has at most %d", len(adapters), modelserver.MaxAdapters)
	}
	for n := range adapters {
		about := &adapters[n]
		if about.File != "" {
			about.File = filepath.Join(m.mounted, filepath.Clean("/"+about.File))
		}
		file, err := m.file(&about.modelFile, dirs)
		if err != nil {
			return err
		}
		s.Adapters = append(s.Adapters, modelserver.Adapter{File: file, Scale: float64(about.Scale) / 100})
	}
	return nil
}

// secrets are what sources are read with; each is empty where no credential is named.
type secrets struct{ account, key, login, ca, token, username, password string }

func (m *modelFiles) secrets(dirs planfile.Dirs) (secrets, error) {
	var all secrets
	for credential, value := range map[string]*string{m.account: &all.account, m.key: &all.key, m.registry: &all.login,
		m.ca: &all.ca, m.token: &all.token, m.username: &all.username, m.password: &all.password} {
		if credential == "" {
			continue
		}
		var err error
		if *value, err = dirs.Secret(*password(credential)); err != nil {
			return secrets{}, err
		}
	}
	return all, nil
}

// place tells one source from another; empty for a file that somebody else keeps.
func (m *modelFile) place() string {
	parts := []string{m.URL, m.Endpoint, m.Bucket, m.Key, m.Image, m.Path}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
}

// file with the source that a description names.
func (m *modelFiles) file(about *modelFile, dirs planfile.Dirs) (modelserver.File, error) {
	file := modelserver.File{Path: about.File, Wanted: modelfile.Wanted{SHA256: about.SHA256, Size: about.Size}}
	with, err := m.secrets(dirs)
	if err != nil {
		return file, err
	}
	file.Place = about.place()
	var sources []modelfile.Source
	if about.URL != "" {
		sources = append(sources, modelfile.HTTP{URL: about.URL, CA: []byte(with.ca), Token: with.token,
			Username: with.username, Password: with.password})
	}
	if about.Endpoint != "" {
		sources = append(sources, modelfile.S3{Endpoint: about.Endpoint, Region: about.Region, Bucket: about.Bucket,
			Key: about.Key, AccessKey: with.account, SecretKey: with.key, CA: []byte(with.ca)})
	}
	if about.Image != "" {
		sources = append(sources, modelfile.Image{Reference: about.Image, Path: about.Path, Login: with.login,
			CA: []byte(with.ca)})
	}
	switch {
	case len(sources) > 1:
		return file, errors.New("a file has one source: give one of URL, endpoint and image")
	case len(sources) == 1:
		file.Source = sources[0]
	}
	return file, nil
}
