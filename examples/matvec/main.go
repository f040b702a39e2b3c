// Command matvec multiplies a matrix by a vector. Task 0 has both; it scatters the rows of the matrix,
// as evenly as possible, and broadcasts the vector. Every task multiplies its rows, and task 0 gathers
// the results.
//
//	go run ./cmd/coppice run -n 4 -- go run ./examples/matvec
//	go run ./examples/matvec
//
// Element (i, j) of the matrix is i+j and all of the vector is 1, so the expected product is easy to
// compute.
package main

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice"
)

const rows, columns = 1000, 1000

func main() { coppice.Main(matvec) }

func matvec(ctx context.Context, t *coppice.Task) error {
	var matrix, vector []float64
	if t.Rank() == 0 {
		matrix, vector = input(rows, columns)
	}
	product, err := multiply(ctx, t, matrix, vector)
	if err != nil {
		return err
	}
	if t.Rank() == 0 {
		fmt.Printf("%d elements, from %.0f to %.0f (tasks: %d)\n", len(product), product[0], product[rows-1], t.Size())
	}
	return nil
}

// input makes a matrix, row by row in one slice, and a vector.
func input(rows, columns int) (matrix, vector []float64) {
	for i := range rows {
		for j := range columns {
			matrix = append(matrix, float64(i+j))
		}
	}
	for range columns {
		vector = append(vector, 1)
	}
	return matrix, vector
}

// multiply returns matrix·vector of task 0 at task 0. Elsewhere it returns nil and ignores its
// arguments.
func multiply(ctx context.Context, t *coppice.Task, matrix, vector []float64) ([]float64, error) {
	vector, err := coppice.Broadcast(ctx, t, vector)
	if err != nil {
		return nil, err
	}
	var blocks [][]float64
	if t.Rank() == 0 {
		blocks = split(matrix, len(vector), t.Size())
	}
	mine, err := coppice.Scatter(ctx, t, blocks, coppice.Shared()) // nobody changes the matrix: no need to copy it
	if err != nil {
		return nil, err
	}
	parts, err := coppice.Gather(ctx, t, times(mine, vector))
	if err != nil {
		return nil, err
	}
	var product []float64
	for _, part := range parts { // by rank, so in the order of rows
		product = append(product, part...)
	}
	return product, nil
}

// split cuts a matrix into n blocks of whole rows, whose numbers differ by one at
// most.
func split(matrix []float64, columns, n int) (blocks [][]float64) {
	rows := len(matrix) / columns
	for i := range n {
		blocks = append(blocks, matrix[rows*i/n*columns:rows*(i+1)/n*columns])
	}
	return blocks
}

// times multiplies some rows by a vector.
func times(rows, vector []float64) (product []float64) {
	for ; len(rows) > 0; rows = rows[len(vector):] {
		sum := 0.0
		for j, v := range vector {
			sum += rows[j] * v
		}
		product = append(product, sum)
	}
	return product
}
