// Package correct has programs that keep the user's duties.
package correct
