// Package swim lets a program on many hosts find silent processes by SWIM, if COPPICE_DETECT is swim.
// Import it for this side effect alone:
//
//	import _ "github.com/coppice-go/coppice/swim"
//
// It is a separate package because it adds 4 MB to a program, for hashicorp/memberlist, which not every
// program wants.
package swim

import (
	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/detect/swim"
)

func init() {
	detect.Register("swim", func(o detect.Outside) (detect.Detector, error) {
		return swim.Start(o)
	})
}
