// Package clock reads a clock that all processes of a host share, and that no
// correction of the date sets.
package clock

import "time"

// Since is the time since an earlier Now, read by any process of this host.
func Since(then int64) time.Duration { return time.Duration(Now() - then) }
