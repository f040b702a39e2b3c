// Package clock reads a clock that all processes of a host share, and that corrections of the date do
// not set. Its API may change.
package clock
