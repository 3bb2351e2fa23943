// SPDX-License-Identifier: Apache-2.0

package modelserver

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroinfra/agents/internal/modelfile"
)

// Pauses before a file is downloaded again that was another one: all of it has to come for that to be known, so a large
// one would be downloaded without end.
const (
	firstPause   = time.Minute
	longestPause = time.Hour
)

// vain is a file that was downloaded as a whole, and was another one.
type vain struct {
	Place, SHA256 string
	// Downloads in a row that were in vain, and what the last one said.
	Downloads int
	Why       string
	// Until is when it is downloaded again.
	Until time.Time
}

// again says when.
func (v *vain) again() string {
	return "it is downloaded again at " + v.Until.UTC().Format(time.TimeOnly) + " UTC"
}

// waits fails as long as a file is not to be downloaded again. Another version is another file, and a pod that is made
// anew remembers nothing.
func (s *Starter) waits(file *File) error {
	for _, v := range s.inVain() {
		if v.is(file) && time.Now().Before(v.Until) {
			return fmt.Errorf("%s; %s", v.Why, v.again())
		}
	}
	return nil
}

// remember notes what came of a download, and returns its error.
func (s *Starter) remember(file *File, err error) error {
	f, all := files{s.Run}, s.inVain()
	at := slices.IndexFunc(all, func(v vain) bool { return v.is(file) })
	switch wrong := errors.As(err, new(modelfile.WrongDigest)); {
	case !wrong && (err != nil || at < 0):
		return err
	case !wrong:
		return f.write(f.vain(), slices.Delete(all, at, at+1))
	case at < 0:
		all, at = append(all, vain{Place: file.Place, SHA256: file.Wanted.SHA256}), len(all)
	}
	v := &all[at]
	pause := min(firstPause<<min(v.Downloads, 10), longestPause)
	v.Downloads, v.Why, v.Until = v.Downloads+1, err.Error(), time.Now().Add(pause)
	return errors.Join(fmt.Errorf("%w; %s", err, v.again()), f.write(f.vain(), all))
}

// is says whether it is about a file.
func (v *vain) is(file *File) bool { return v.Place == file.Place && v.SHA256 == file.Wanted.SHA256 }

// inVain are all such files. What cannot be read is not remembered.
func (s *Starter) inVain() []vain {
	var all []vain
	f := files{s.Run}
	if f.read(f.vain(), &all) != nil {
		return nil
	}
	return all
}
