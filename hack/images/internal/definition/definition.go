// SPDX-License-Identifier: Apache-2.0

// Package definition reads what an image is made of from its image.yaml, strictly:
// what it does not know it refuses, with file and line.
package definition

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// FileName is the name of an image's definition in its folder.
const FileName = "image.yaml"

// Definition is the content of one image.yaml.
type Definition struct {
	// About says in one line what the image is; it becomes the label org.opencontainers.image.description.
	About string `yaml:"about"`
	// Repository is the name without registry and tag; the default is zeroinfra/<folder>.
	Repository string `yaml:"repository"`
	// VersionFrom names the package whose upstream version is the version of the image, or group:artifact of
	// a Maven artifact; the default for an image with variants is the first package of the variant, or of
	// the definition. Without variants that is the version given on the command line.
	VersionFrom string `yaml:"versionFrom"`
	// Variants are the versions of the image that this definition makes. Without
	// any there is one, tagged with the version given on the command line.
	Variants []Variant `yaml:"variants"`
	// Debian is the part of the image that comes from packages.
	Debian *Debian `yaml:"debian"`
	// Maven is the part of the image that comes from Maven artifacts.
	Maven *Maven `yaml:"maven"`
	// Binaries are programs of the suite that are built and put in.
	Binaries []Binary `yaml:"binaries"`
	// Users and Groups fill /etc/passwd and /etc/group; without any these files are not made.
	Users  []User  `yaml:"users"`
	Groups []Group `yaml:"groups"`
	// Directories, Files and Symlinks are added last.
	Directories []Directory `yaml:"directories"`
	Files       []File      `yaml:"files"`
	Symlinks    []Symlinks  `yaml:"symlinks"`
	// Config says how containers run.
	Config Config `yaml:"config"`
}

// Variant is one version of an image made from packages.
type Variant struct {
	// Tag is the version's series, such as "7.0": the build fails when the version found in the package is not of it.
	Tag string `yaml:"tag"`
	// Suite is the Debian suite of this variant.
	Suite string `yaml:"suite"`
	// Packages are added to those of the definition.
	Packages []string `yaml:"packages"`
	// Properties are added to those of the part from Maven artifacts, and replace those of the same names.
	Properties map[string]string `yaml:"properties"`
}

// Debian is the part of an image that comes from packages.
type Debian struct {
	// Base is "standard" (the default: base.yaml comes first) or "none".
	Base string `yaml:"base"`
	// Suite is bookworm, trixie or sid; it is left out when each variant names one.
	Suite string `yaml:"suite"`
	// Also are further suites, for packages that the suite has not. Of a package that several have, the latest version is
	// taken.
	Also []string `yaml:"also"`
	// Packages are installed with what they depend on; recommended packages are not.
	Packages []string `yaml:"packages"`
	// Exclude holds shell patterns of names of packages that are left out, with what only they need.
	Exclude []string `yaml:"exclude"`
	// Prune holds shell patterns of absolute paths that are removed with all below them.
	Prune []string `yaml:"prune"`
	// Keep, when given, holds shell patterns of the only absolute paths that stay.
	Keep []string `yaml:"keep"`
}

// Maven is the part of an image that comes from Maven artifacts. What they are, with their digests, is in a list
// beside the definition: <name>-<tag>.lock, which "images lock" writes.
type Maven struct {
	// Pom is a project object model in the folder of the definition, whose runtime dependencies are put in, with what
	// they depend on.
	Pom string `yaml:"pom"`
	// Directory of the jars in the image.
	Directory string `yaml:"directory"`
	// Unpack are shell patterns of files in the artifacts that are zips, which are put below Directory. A folder that
	// matches stands for all below it. Without zips there are none.
	Unpack []string `yaml:"unpack"`
	// Properties are given to the model.
	Properties map[string]string `yaml:"properties"`
}

// Binary is a Go program of this repository.
type Binary struct {
	// Module is the folder of the Go module, relative to the top of the repository.
	Module string `yaml:"module"`
	// Package is the program's package, relative to the module, such as ./cmd; or that of a program of others whose
	// version the module pins as its tool, such as example.com/module/cmd.
	Package string `yaml:"package"`
	// Path is where the program goes.
	Path string `yaml:"path"`
	// VersionVariable is set to the version by the linker, or a constant that is the version; the default is main.version.
	VersionVariable string `yaml:"versionVariable"`
	// Version of a program of others. The suite's own have its version.
	Version string `yaml:"version"`
	// Tags are build tags.
	Tags []string `yaml:"tags"`
}

// User is a line of /etc/passwd.
type User struct {
	Name string `yaml:"name"`
	UID  int    `yaml:"uid"`
	// GID defaults to the UID; a group of the user's name is made when no group has this number.
	GID *int `yaml:"gid"`
	// Home defaults to /nonexistent.
	Home string `yaml:"home"`
	// Shell defaults to /usr/sbin/nologin.
	Shell string `yaml:"shell"`
}

// Group is a line of /etc/group.
type Group struct {
	Name string `yaml:"name"`
	GID  int    `yaml:"gid"`
}

// Directory is a folder with mode and owner.
type Directory struct {
	Path string `yaml:"path"`
	// Mode defaults to 0755.
	Mode *Mode `yaml:"mode"`
	// Owner is a declared user's name, or "uid:gid"; the default is root.
	Owner string `yaml:"owner"`
}

// File is a file with given content.
type File struct {
	Path string `yaml:"path"`
	// Content is the text of the file. Either it or Source is given.
	Content *string `yaml:"content"`
	// Source is a file in the folder of the definition.
	Source string `yaml:"source"`
	// Mode defaults to 0644.
	Mode *Mode `yaml:"mode"`
	// Owner is a declared user's name, or "uid:gid"; the default is root.
	Owner string `yaml:"owner"`
}

// Symlinks are links of several names in one folder to the same target.
type Symlinks struct {
	Target    string   `yaml:"target"`
	Directory string   `yaml:"directory"`
	Names     []string `yaml:"names"`
}

// Config says how containers of an image run.
type Config struct {
	Entrypoint []string `yaml:"entrypoint"`
	Cmd        []string `yaml:"cmd"`
	// User is a declared user's name, or "uid" or "uid:gid"; in the image it is always
	// numeric, because only then can Kubernetes tell that it is not root.
	User       string            `yaml:"user"`
	WorkingDir string            `yaml:"workingDir"`
	Env        map[string]string `yaml:"env"`
	Labels     map[string]string `yaml:"labels"`
	// Ports are like "6379/tcp".
	Ports []string `yaml:"ports"`
}

// Mode is a file mode, written in octal with or without quotes.
type Mode int64

// UnmarshalYAML reads the octal digits as they are written.
func (m *Mode) UnmarshalYAML(node *yaml.Node) error {
	n, err := strconv.ParseUint(node.Value, 8, 12)
	if err != nil {
		return fmt.Errorf("line %d: mode %q is not an octal number from 0 to 7777", node.Line, node.Value)
	}
	*m = Mode(n)
	return nil
}
