// SPDX-License-Identifier: Apache-2.0

package modelfile

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// titleAnnotation of a layer has the name of the file that the layer is, in an artifact that is no file system.
const titleAnnotation = "org.opencontainers.image.title"

// Whiteouts are files of a layer that remove what layers below it have.
const (
	whiteoutPrefix = ".wh."
	opaqueWhiteout = ".wh..wh..opq"
)

// Image is a file of an OCI image or artifact in a registry. The layer that has the file is read as far as the file;
// layers above it are read whole, so the file is best in the last one.
type Image struct {
	// Reference of the image, with the host of its registry, such as registry.example.com/models/chat:1.0.
	Reference string
	// Path of the file in the file system of the image, or the title of the layer that is the file.
	Path string
	// Login is the content of a Secret of the type kubernetes.io/dockerconfigjson; empty for a registry that asks nobody.
	Login string
	// CA, as PEM, are authorities that count beside those of the system.
	CA []byte
}

// Open implements Source. Content begins at 0 whatever the offset: a compressed layer has no ranges.
func (i Image) Open(ctx context.Context, _ int64) (Content, error) {
	reference, err := name.ParseReference(i.Reference)
	if err != nil {
		return Content{}, fmt.Errorf("%q is no reference of an image: %w", i.Reference, err)
	}
	account, err := i.account(reference.Context().RegistryStr())
	if err != nil {
		return Content{}, err
	}
	client, err := httpClient(i.CA)
	if err != nil {
		return Content{}, err
	}
	image, err := remote.Image(reference, remote.WithContext(ctx), remote.WithAuth(account),
		remote.WithTransport(client.Transport),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return Content{}, i.failed(err)
	}
	content, err := i.find(image)
	if err != nil {
		return Content{}, i.failed(err)
	}
	return content, nil
}

// failed says what the registry answers by its status and codes, such as MANIFEST_UNKNOWN. Of a page it says nothing.
func (i Image) failed(err error) error {
	if refused, is := errors.AsType[*transport.Error](err); is {
		why := fmt.Sprintf("the registry answers %d %s", refused.StatusCode, http.StatusText(refused.StatusCode))
		for _, problem := range refused.Errors {
			why += ", " + string(problem.Code)
		}
		err = errors.New(why)
	}
	return fmt.Errorf("cannot read %s of the image %s: %w", i.Path, i.Reference, withoutURL(err))
}

// account of a registry in the login; none where the login does not name the registry.
func (i Image) account(registry string) (authn.Authenticator, error) {
	if i.Login == "" {
		return authn.Anonymous, nil
	}
	var login struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	// The error could quote a password.
	if json.Unmarshal([]byte(i.Login), &login) != nil {
		return nil, errors.New("the Secret for the registry is not of the type kubernetes.io/dockerconfigjson")
	}
	for server, account := range login.Auths {
		_, after, found := strings.Cut(server, "://")
		if !found {
			after = server
		}
		if host, _, _ := strings.Cut(after, "/"); host == registry {
			return authn.FromConfig(account), nil
		}
	}
	return authn.Anonymous, nil
}

// find looks for the file in the layers, the last of which is on top.
func (i Image) find(image v1.Image) (Content, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return Content{}, err
	}
	layers, err := image.Layers()
	if err != nil {
		return Content{}, err
	}
	wanted := path.Clean("/" + i.Path)[1:]
	for n := len(layers) - 1; n >= 0; n-- {
		about := manifest.Layers[n]
		if about.Annotations[titleAnnotation] == i.Path {
			blob, err := layers[n].Compressed()
			return Content{ReadCloser: blob, Size: about.Size}, err
		}
		if !about.MediaType.IsLayer() {
			continue
		}
		switch content, err := inLayer(layers[n], wanted); {
		case errors.Is(err, errNotInLayer):
		case err != nil:
			return Content{}, err
		default:
			return content, nil
		}
	}
	return Content{}, errors.New("the image has no such file")
}

// errNotInLayer says that a layer neither has a file nor hides it.
var errNotInLayer = errors.New("the layer does not have the file")

// inLayer returns a file of a layer; errNotInLayer where the layers below may have it.
func inLayer(layer v1.Layer, wanted string) (Content, error) {
	files, err := layer.Uncompressed()
	if err != nil {
		return Content{}, err
	}
	content, err := inArchive(tar.NewReader(files), wanted)
	if err != nil {
		return Content{}, errors.Join(err, files.Close())
	}
	content.ReadCloser = partOf{content.ReadCloser, files}
	return content, nil
}

// inArchive reads an archive up to a file.
func inArchive(archive *tar.Reader, wanted string) (Content, error) {
	hidden, whiteouts := false, whiteoutsOf(wanted)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			if hidden {
				return Content{}, errors.New("the image has no such file: a layer removes it")
			}
			return Content{}, errNotInLayer
		}
		if err != nil {
			return Content{}, err
		}
		switch found := path.Clean("/" + header.Name)[1:]; {
		case whiteouts[found]:
			hidden = true
		case found == wanted && header.Typeflag != tar.TypeReg:
			return Content{}, errors.New("it is no regular file: name the file itself, not a folder or a link")
		case found == wanted:
			return Content{ReadCloser: io.NopCloser(archive), Size: header.Size}, nil
		}
	}
}

// whiteoutsOf are the names of files by which a layer hides a file of the layers below it.
func whiteoutsOf(wanted string) map[string]bool {
	all := map[string]bool{}
	for at := wanted; at != "."; at = path.Dir(at) {
		all[path.Join(path.Dir(at), whiteoutPrefix+path.Base(at))] = true
		all[path.Join(path.Dir(at), opaqueWhiteout)] = true
	}
	return all
}

// partOf reads a part of what it closes.
type partOf struct {
	io.Reader
	io.Closer
}
