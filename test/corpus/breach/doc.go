// Package breach has programs with one breach of the user's duties each.
package breach
