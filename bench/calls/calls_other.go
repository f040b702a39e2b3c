//go:build !linux

package calls

import "context"

// Run fails.
func Run(context.Context, []string) ([]Section, error) { return nil, ErrUnsupported }
