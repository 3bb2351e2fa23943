// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The values of Debian.Base.
const (
	BaseStandard = "standard"
	BaseNone     = "none"
)

// Image is one image to build: a variant of a definition with everything filled in.
// It is plain data, so that its JSON form tells whether anything has changed.
type Image struct {
	// Name and Tag name the archive; Repository and Tag name the image.
	Name, Repository, Tag string
	About                 string
	// Version is that of the suite's own programs, and of the image unless VersionFrom names a package that has it.
	Version, VersionFrom string
	// Debian is nil for an image of binaries only.
	Debian *Debian
	// Maven is nil for an image without Maven artifacts.
	Maven       *Artifacts
	Binaries    []Binary
	Users       []Account
	Groups      []Group
	Directories []Node
	Files       []Node
	Symlinks    []Link
	Config      Config
}

// Artifacts are jars, and files of zips, from Maven.
type Artifacts struct {
	// Directory of the jars, and of what is unpacked, in the image.
	Directory string
	// Unpack are patterns of the files of zips that are put in.
	Unpack []string
	// Pom is the text of the project object model, and Properties are given to it.
	Pom        []byte
	Properties map[string]string
	// Lock is the text of the list of artifacts; it is empty when there is none yet.
	Lock []byte
}

// Account is a user with all defaults filled in.
type Account struct {
	Name        string
	UID, GID    int
	Home, Shell string
}

// Node is a folder, or a file with its content.
type Node struct {
	Path     string
	Mode     int64
	UID, GID int
	Content  []byte
}

// Link is a symbolic link.
type Link struct {
	Path, Target string
	// Yields marks a link of the base, which gives way to a file of a package.
	Yields bool
}

// Reference is repository:tag.
func (i *Image) Reference() string { return i.Repository + ":" + i.Tag }

// ArchiveName is the name of the file that the image is written to.
func (i *Image) ArchiveName() string { return i.Name + "-" + i.Tag + ".tar" }

// LockName is the name of the list of the image's Maven artifacts, beside its definition.
func (i *Image) LockName() string { return i.Name + "-" + i.Tag + ".lock" }

// Images returns the images that a definition makes, in the order of its variants.
func (s Source) Images(base Source, version string) ([]*Image, error) {
	if s.Debian == nil && len(s.Binaries) == 0 {
		return nil, fmt.Errorf("%s: give debian, binaries, or both", filepath.Join(s.Dir, FileName))
	}
	if !tagForm.MatchString(version) {
		return nil, fmt.Errorf("version %q cannot be the tag of an image", version)
	}
	variants := s.Variants
	if len(variants) == 0 {
		variants = []Variant{{Tag: version}}
	}
	var images []*Image
	for _, v := range variants {
		image, err := s.image(base, v, version)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(s.Dir, FileName), err)
		}
		images = append(images, image)
	}
	return images, nil
}

func (s Source) image(base Source, v Variant, version string) (*Image, error) {
	image := &Image{
		Name: s.Name, Repository: s.Repository, Tag: v.Tag, About: s.About, Version: version, VersionFrom: s.VersionFrom,
		Binaries: s.Binaries, Config: s.Config,
	}
	if image.Repository == "" {
		image.Repository = "zeroinfra/" + s.Name
	}
	parts := []Source{s}
	if s.Debian != nil {
		d := *s.Debian
		image.Debian = &d
		d.Packages = slices.Concat(d.Packages, v.Packages)
		if d.Base != BaseNone {
			parts = []Source{base, s}
			image.Config.Env = maps.Clone(base.Config.Env)
			if image.Config.Env == nil {
				image.Config.Env = map[string]string{}
			}
			maps.Copy(image.Config.Env, s.Config.Env)
			d.Packages = slices.Concat(base.Debian.Packages, d.Packages)
			d.Exclude = slices.Concat(base.Debian.Exclude, d.Exclude)
			d.Prune = slices.Concat(base.Debian.Prune, d.Prune)
		}
		if v.Suite != "" {
			d.Suite = v.Suite
		}
		if len(s.Variants) > 0 && image.VersionFrom == "" {
			image.VersionFrom = slices.Concat(v.Packages, s.Debian.Packages, []string{""})[0]
		}
		if d.Suite == "" {
			return nil, fmt.Errorf("debian.suite must be given")
		}
		if len(d.Packages) == 0 {
			return nil, fmt.Errorf("debian.packages must be given")
		}
	}
	if err := image.addArtifacts(s, v); err != nil {
		return nil, err
	}
	for _, part := range parts {
		image.addAccounts(part)
	}
	for _, part := range parts {
		if err := image.addFiles(part, part.Dir != s.Dir); err != nil {
			return nil, err
		}
	}
	var err error
	image.Config.User, err = image.numeric(s.Config.User)
	return image, err
}

func (i *Image) addArtifacts(s Source, v Variant) (err error) {
	if s.Maven == nil {
		return nil
	}
	i.Maven = &Artifacts{Directory: s.Maven.Directory, Unpack: s.Maven.Unpack, Properties: map[string]string{}}
	maps.Copy(i.Maven.Properties, s.Maven.Properties)
	maps.Copy(i.Maven.Properties, v.Properties)
	if i.Maven.Pom, err = os.ReadFile(filepath.Join(s.Dir, s.Maven.Pom)); err != nil {
		return fmt.Errorf("cannot read project object model: %w", err)
	}
	i.Maven.Lock, err = os.ReadFile(filepath.Join(s.Dir, i.LockName()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot read list of Maven artifacts: %w", err)
	}
	return nil
}

func (i *Image) addAccounts(s Source) {
	i.Groups = append(i.Groups, s.Groups...)
	for _, u := range s.Users {
		a := Account{Name: u.Name, UID: u.UID, GID: u.UID, Home: u.Home, Shell: u.Shell}
		if u.GID != nil {
			a.GID = *u.GID
		}
		if a.Home == "" {
			a.Home = "/nonexistent"
		}
		if a.Shell == "" {
			a.Shell = "/usr/sbin/nologin"
		}
		if !slices.ContainsFunc(i.Groups, func(g Group) bool { return g.GID == a.GID }) {
			i.Groups = append(i.Groups, Group{Name: u.Name, GID: a.GID})
		}
		i.Users = append(i.Users, a)
	}
}

func (i *Image) addFiles(s Source, yields bool) error {
	for _, d := range s.Directories {
		node, err := i.node(d.Path, d.Mode, 0o755, d.Owner)
		if err != nil {
			return err
		}
		i.Directories = append(i.Directories, node)
	}
	for _, f := range s.Files {
		node, err := i.node(f.Path, f.Mode, 0o644, f.Owner)
		if err != nil {
			return err
		}
		if f.Content != nil {
			node.Content = []byte(*f.Content)
		} else if node.Content, err = os.ReadFile(filepath.Join(s.Dir, f.Source)); err != nil {
			return fmt.Errorf("cannot read source of file %q: %w", f.Path, err)
		}
		i.Files = append(i.Files, node)
	}
	for _, l := range s.Symlinks {
		for _, name := range l.Names {
			i.Symlinks = append(i.Symlinks, Link{Path: l.Directory + "/" + name, Target: l.Target, Yields: yields})
		}
	}
	return nil
}

func (i *Image) node(path string, mode *Mode, standard int64, owner string) (Node, error) {
	node := Node{Path: path, Mode: standard}
	if mode != nil {
		node.Mode = int64(*mode)
	}
	if owner == "" {
		return node, nil
	}
	ids, err := i.numeric(owner)
	if err != nil {
		return node, fmt.Errorf("owner of %q: %w", path, err)
	}
	uid, gid, _ := strings.Cut(ids, ":")
	node.UID, _ = strconv.Atoi(uid)
	node.GID, _ = strconv.Atoi(gid)
	return node, nil
}

// numeric turns a declared user's name, or "uid", into "uid:gid".
func (i *Image) numeric(owner string) (string, error) {
	if owner == "" || strings.Contains(owner, ":") {
		return owner, nil
	}
	for _, u := range i.Users {
		if u.Name == owner || strconv.Itoa(u.UID) == owner {
			return fmt.Sprintf("%d:%d", u.UID, u.GID), nil
		}
	}
	if _, err := strconv.Atoi(owner); err == nil {
		return owner + ":" + owner, nil
	}
	return "", fmt.Errorf("user %q is not declared under users", owner)
}
