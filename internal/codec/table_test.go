package codec

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"sync"
	"testing"
	"time"
)

// cross sends a value and returns what comes.
func cross[T any](v T) (any, error) {
	c, err := For[T]()
	if err != nil {
		return nil, err
	}
	b, err := c.Append(nil, &v)
	if err != nil {
		return nil, err
	}
	var got T
	err = c.Decode(bytes.Clone(b), &got, false)
	return got, err
}

type (
	plainHidden struct{ a, b int }
	mixedHidden struct {
		A string
		b int
	}
	tagged struct {
		A string
		B string `json:"-"`
	}
	shown  struct{ A, B int }
	linked struct {
		Name string
		Next *linked
	}
	locked struct{ sync.Mutex }
)

// TestTableOfTypes is the table "What can be sent" of docs/api.md, row by row.
func TestTableOfTypes(t *testing.T) {
	_, _ = plainHidden{}.b, mixedHidden{}.b
	loop := &linked{Name: "a"}
	loop.Next = loop
	n := 1
	zone := time.FixedZone("here", 3600)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, zone)
	comes := func(v any, err error) func(want any) {
		return func(want any) {
			t.Helper()
			if err != nil || !reflect.DeepEqual(v, want) {
				t.Errorf("%#v, want %#v; %v", v, want, err)
			}
		}
	}
	refused := func(v any, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%T can be sent", v)
		}
	}
	comes(cross(7))(7)
	comes(cross(map[string]bool{"x": true}))(map[string]bool{"x": true})
	comes(cross(map[time.Duration]int{5: 1}))(map[time.Duration]int{5: 1})
	comes(cross(map[float64]int{1.5: 1}))(map[float64]int{1.5: 1})
	comes(cross(map[float32]int{1.5: 1}))(map[float32]int{1.5: 1})
	refused(cross(map[float64]int{math.NaN(): 1}))

	comes(cross(complex(1, 2)))(complex(1, 2))
	comes(cross([]complex128{1}))([]complex128{1})
	comes(cross(struct{ Z complex128 }{1}))(struct{ Z complex128 }{1})
	refused(cross(map[string]complex128{}))
	refused(cross(map[complex128]int{}))
	refused(cross(uintptr(7)))

	comes(cross(plainHidden{1, 2}))(plainHidden{1, 2})
	comes(cross([]plainHidden{{1, 2}}))([]plainHidden{{1, 2}})
	refused(cross(map[plainHidden]int{}))
	comes(cross(map[shown]int{{1, 2}: 3}))(map[shown]int{{1, 2}: 3})
	refused(cross(mixedHidden{}))
	refused(cross(tagged{}))
	comes(cross(linked{Name: "a"}))(linked{Name: "a"})

	comes(cross([]int(nil)))([]int(nil))
	comes(cross([]int{}))([]int(nil)) // alone, it arrives as nil
	comes(cross([][]int{nil, {}}))([][]int{nil, {}})
	comes(cross(map[string]int(nil)))(map[string]int(nil))
	comes(cross(map[[2]int]string{{1, 2}: "x"}))(map[[2]int]string{{1, 2}: "x"})

	comes(cross(&n))(&n)
	refused(cross(new([]int)))
	refused(cross(loop))
	refused(cross(map[*int]int{}))
	if got, err := cross([2]*int{&n, &n}); err != nil || got.([2]*int)[0] == got.([2]*int)[1] {
		t.Error(got, err)
	}

	if got, err := cross(at); err != nil || !got.(time.Time).Equal(at) || fmt.Sprint(got) == fmt.Sprint(at) {
		t.Error(got, err)
	}
	refused(cross(time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)))
	refused(cross(map[time.Time]int{}))
	comes(cross(*big.NewInt(7)))(*big.NewInt(7))

	refused(cross[any](1))
	refused(cross(func() {}))
	refused(cross(make(chan int)))
	refused(cross(locked{}))
}
