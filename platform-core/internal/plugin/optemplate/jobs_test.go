// SPDX-License-Identifier: Apache-2.0

package optemplate

import (
	"fmt"
	"testing"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// A job of a template that acts on several components has to say whose image it has.
func TestAJobThatDoesNotSayOfWhatItIs(t *testing.T) {
	var says []string
	check := checker{scope: Scope{Components: []Component{{Name: "db"}, {Name: "web"}}},
		fail: func(path document.Path, format string, args ...any) {
			says = append(says, path.String()+" "+fmt.Sprintf(format, args...))
		}}
	if of := check.jobComponent(document.Path{"steps"}, &JobStep{}); of != nil || len(says) != 1 ||
		says[0] != "steps does not say whose image it has: set component to one of db, web" {
		t.Errorf("it is of %v and says %q", of, says)
	}
	if of := check.jobComponent(document.Path{"steps"}, &JobStep{Component: "web"}); of == nil || of.Name != "web" ||
		len(says) != 1 {
		t.Errorf("it is of %v and says %q", of, says)
	}
}
