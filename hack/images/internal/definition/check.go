// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/zeroinfra/hack/images/internal/sources"
)

// problem is a value that cannot be right, at a path of keys and indexes.
type problem struct {
	at   []any
	text string
}

// field spells the place like debian.packages[0].
func (p problem) field() string {
	var b strings.Builder
	for _, step := range p.at {
		if i, ok := step.(int); ok {
			fmt.Fprintf(&b, "[%d]", i)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		fmt.Fprint(&b, step)
	}
	return b.String()
}

// line finds the place in the document, or the nearest thing around it that exists.
func (p problem) line(root *yaml.Node) int {
	node := root
	if node.Kind == yaml.DocumentNode && len(node.Content) > 0 {
		node = node.Content[0]
	}
	for _, step := range p.at {
		next := child(node, step)
		if next == nil {
			break
		}
		node = next
	}
	return node.Line
}

func child(node *yaml.Node, step any) *yaml.Node {
	switch step := step.(type) {
	case int:
		if node.Kind == yaml.SequenceNode && step < len(node.Content) {
			return node.Content[step]
		}
	case string:
		for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i+1]
			}
		}
	}
	return nil
}

// checker collects problems.
type checker struct{ found []problem }

func (c *checker) add(text string, at ...any) { c.found = append(c.found, problem{at, text}) }

// require reports an empty value.
func (c *checker) require(value string, at ...any) {
	if value == "" {
		c.add("must be given", at...)
	}
}

// absolute reports what is not a plain absolute path.
func (c *checker) absolute(value string, at ...any) {
	if !path.IsAbs(value) || path.Clean(value) != value || value == "/" {
		c.add(fmt.Sprintf("%q is not a clean absolute path", value), at...)
	}
}

// form reports what does not match a pattern.
func (c *checker) form(pattern *regexp.Regexp, example, value string, at ...any) {
	if !pattern.MatchString(value) {
		c.add(fmt.Sprintf("%q is not of the form %s", value, example), at...)
	}
}

// patterns reports shell patterns that are malformed or do not start with prefix.
func (c *checker) patterns(values []string, prefix string, at ...any) {
	for i, value := range values {
		place := append(slices.Clone(at), i)
		if _, err := path.Match(value, ""); err != nil || value == "" {
			c.add(fmt.Sprintf("%q is not a shell pattern", value), place...)
		} else if !strings.HasPrefix(value, prefix) {
			c.add(fmt.Sprintf("%q does not start with %s", value, prefix), place...)
		}
	}
}

var (
	tagForm        = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	repositoryForm = regexp.MustCompile(`^[a-z0-9]+([._-][a-z0-9]+)*(/[a-z0-9]+([._-][a-z0-9]+)*)*$`)
	packageForm    = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	accountForm    = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
	ownerForm      = regexp.MustCompile(`^([a-z_][a-z0-9_-]*|\d{1,9}(:\d{1,9})?)?$`)
	portForm       = regexp.MustCompile(`^\d{1,5}/(tcp|udp|sctp)$`)
	envForm        = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	variableForm   = regexp.MustCompile(`^([\w./-]+\.\w+)?$`)
	importForm     = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+(/[\w.~-]+)+$`)
	propertyForm   = regexp.MustCompile(`^[A-Za-z][\w.-]*$`)
	valueForm      = regexp.MustCompile(`^[\w.+-]+$`)
	buildTagForm   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)
)

// problems returns everything in the definition that cannot be right.
func (d *Definition) problems() []problem {
	c := &checker{}
	if d.Repository != "" {
		c.form(repositoryForm, "zeroinfra/redis", d.Repository, "repository")
	}
	d.checkDebian(c)
	d.checkMaven(c)
	d.checkBinaries(c)
	d.checkAccounts(c)
	d.checkFiles(c)
	d.checkConfig(c)
	return c.found
}

func (d *Definition) checkDebian(c *checker) {
	if d.Debian == nil {
		if len(d.Variants) > 0 {
			c.add("only images with a debian part have variants", "variants")
		}
		if d.VersionFrom != "" {
			c.add("only images with a debian part take their version from a package", "versionFrom")
		}
		return
	}
	if !slices.Contains([]string{"", BaseStandard, BaseNone}, d.Debian.Base) {
		c.add(fmt.Sprintf("%q is neither %s nor %s", d.Debian.Base, BaseStandard, BaseNone), "debian", "base")
	}
	c.patterns(d.Debian.Exclude, "", "debian", "exclude")
	c.patterns(d.Debian.Prune, "/", "debian", "prune")
	c.patterns(d.Debian.Keep, "/", "debian", "keep")
	checkPackages(c, d.Debian.Packages, "debian", "packages")
	if d.Debian.Suite != "" {
		checkSuite(c, d.Debian.Suite, "debian", "suite")
	}
	for i, suite := range d.Debian.Also {
		checkSuite(c, suite, "debian", "also", i)
	}
	seen := map[string]bool{}
	for i, v := range d.Variants {
		c.form(tagForm, "7.0", v.Tag, "variants", i, "tag")
		checkPackages(c, v.Packages, "variants", i, "packages")
		if seen[v.Tag] {
			c.add(fmt.Sprintf("tag %q is there twice", v.Tag), "variants", i, "tag")
		}
		seen[v.Tag] = true
		switch {
		case d.Debian.Suite == "":
			checkSuite(c, v.Suite, "variants", i, "suite")
		case v.Suite != "":
			c.add("debian.suite is given, so a variant cannot name another", "variants", i, "suite")
		}
	}
}

func (d *Definition) checkMaven(c *checker) {
	if d.Maven == nil {
		for i, v := range d.Variants {
			if len(v.Properties) > 0 {
				c.add("only images with a maven part have properties", "variants", i, "properties")
			}
		}
		if strings.Contains(d.VersionFrom, ":") {
			c.add("only images with a maven part take their version from an artifact", "versionFrom")
		}
		return
	}
	if d.Debian == nil {
		c.add("needs a debian part: a package of it is the Java runtime", "maven")
	}
	c.require(d.Maven.Pom, "maven", "pom")
	if !isLocal(d.Maven.Pom) {
		c.add(fmt.Sprintf("%q is not in the folder of the definition", d.Maven.Pom), "maven", "pom")
	}
	c.absolute(d.Maven.Directory, "maven", "directory")
	c.patterns(d.Maven.Unpack, "", "maven", "unpack")
	checkProperties(c, d.Maven.Properties, "maven", "properties")
	for i, v := range d.Variants {
		checkProperties(c, v.Properties, "variants", i, "properties")
	}
}

func checkProperties(c *checker, properties map[string]string, at ...any) {
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		place := append(slices.Clone(at), name)
		c.form(propertyForm, "kafka.version", name, place...)
		c.form(valueForm, "1.2.3", properties[name], place...)
	}
}

func checkSuite(c *checker, suite string, at ...any) {
	if !slices.Contains(sources.Suites, suite) {
		c.add(fmt.Sprintf("%q is not one of %s", suite, strings.Join(sources.Suites, ", ")), at...)
	}
}

func checkPackages(c *checker, names []string, at ...any) {
	for i, name := range names {
		c.form(packageForm, "redis-server", name, append(slices.Clone(at), i)...)
	}
}

func (d *Definition) checkBinaries(c *checker) {
	for i, b := range d.Binaries {
		if b.Module == "" || path.IsAbs(b.Module) || path.Clean(b.Module) != b.Module || strings.HasPrefix(b.Module, "..") {
			c.add(fmt.Sprintf("%q is not a folder relative to the top of the repository", b.Module), "binaries", i, "module")
		}
		switch own := b.Package == "." || strings.HasPrefix(b.Package, "./"); {
		case own && b.Version != "":
			c.add("is for a program of another module: the suite's own have its version", "binaries", i, "version")
		case !own && !importForm.MatchString(b.Package):
			c.add(fmt.Sprintf("%q is not of the form ./cmd or example.com/module/cmd", b.Package), "binaries", i, "package")
		case !own:
			c.form(tagForm, "v1.2.3", b.Version, "binaries", i, "version")
		}
		c.absolute(b.Path, "binaries", i, "path")
		c.form(variableForm, "main.version", b.VersionVariable, "binaries", i, "versionVariable")
		for j, tag := range b.Tags {
			c.form(buildTagForm, "grpcnotrace", tag, "binaries", i, "tags", j)
		}
	}
}

func (d *Definition) checkAccounts(c *checker) {
	names := map[string]bool{}
	for i, u := range d.Users {
		c.form(accountForm, "redis", u.Name, "users", i, "name")
		if names[u.Name] {
			c.add(fmt.Sprintf("user %q is there twice", u.Name), "users", i, "name")
		}
		names[u.Name] = true
		if u.UID < 0 || u.GID != nil && *u.GID < 0 {
			c.add("numbers of users and groups are not negative", "users", i)
		}
		for _, text := range []string{u.Home, u.Shell} {
			if strings.ContainsAny(text, ":\n") {
				c.add(fmt.Sprintf("%q cannot be in /etc/passwd", text), "users", i)
			}
		}
	}
	for i, g := range d.Groups {
		c.form(accountForm, "redis", g.Name, "groups", i, "name")
		if g.GID < 0 {
			c.add("numbers of groups are not negative", "groups", i, "gid")
		}
	}
}

func (d *Definition) checkFiles(c *checker) {
	for i, dir := range d.Directories {
		c.absolute(dir.Path, "directories", i, "path")
		c.form(ownerForm, "redis or 999:999", dir.Owner, "directories", i, "owner")
	}
	for i, f := range d.Files {
		c.absolute(f.Path, "files", i, "path")
		c.form(ownerForm, "redis or 999:999", f.Owner, "files", i, "owner")
		if (f.Content == nil) == (f.Source == "") {
			c.add("give either content or source", "files", i)
		}
		if f.Source != "" && !isLocal(f.Source) {
			c.add(fmt.Sprintf("%q is not in the folder of the definition", f.Source), "files", i, "source")
		}
	}
	for i, s := range d.Symlinks {
		c.require(s.Target, "symlinks", i, "target")
		c.absolute(s.Directory, "symlinks", i, "directory")
		for n, name := range s.Names {
			if name == "" || name != path.Base(name) || name == ".." {
				c.add(fmt.Sprintf("%q is not a plain name", name), "symlinks", i, "names", n)
			}
		}
		if len(s.Names) == 0 {
			c.add("must be given", "symlinks", i, "names")
		}
	}
}

func isLocal(name string) bool { return !path.IsAbs(name) && path.Clean("/"+name) == "/"+name }

func (d *Definition) checkConfig(c *checker) {
	c.form(ownerForm, "redis or 999:999", d.Config.User, "config", "user")
	if d.Config.WorkingDir != "" {
		c.absolute(d.Config.WorkingDir, "config", "workingDir")
	}
	for name := range d.Config.Env {
		c.form(envForm, "LANG", name, "config", "env", name)
	}
	for i, port := range d.Config.Ports {
		c.form(portForm, "6379/tcp", port, "config", "ports", i)
	}
}
