// Package clock reads a clock that all processes of a host share, and that no
// correction of the date sets.
package clock
