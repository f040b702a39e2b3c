//go:build !linux

package calls

import "context"

// Run returns ErrUnsupported.
func Run(context.Context, []string) ([]Section, error) { return nil, ErrUnsupported }
