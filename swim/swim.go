// Package swim lets a program of many hosts find silent processes by SWIM, if
// COPPICE_DETECT is swim. It is imported for that alone:
//
//	import _ "github.com/coppice-go/coppice/swim"
//
// It is apart because not every program wants what it brings along:
// hashicorp/memberlist adds 4 MB to a program.
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
