package topology

import (
	"strconv"
	"strings"
	"testing"
)

// String writes what ParseShape reads.
func (s Shape) String() string {
	switch s.name {
	case karyShape:
		return "kary:" + strconv.Itoa(s.k)
	case lameShape:
		return "lame:" + strconv.Itoa(s.k)
	case optimalShape:
		return "optimal"
	default:
		return "binomial"
	}
}

func TestShapesAndOrdersReadWhatTheyWrite(t *testing.T) {
	for _, s := range []string{"binomial", "kary:1", "kary:4", "lame:2", "optimal"} {
		shape, err := ParseShape(s)
		if err != nil || shape.String() != s {
			t.Errorf("ParseShape(%q) = %v, %v", s, shape, err)
		}
	}
	for _, s := range []string{"interleaved", "in-order"} {
		order, err := ParseOrder(s)
		if err != nil || order.String() != s {
			t.Errorf("ParseOrder(%q) = %v, %v", s, order, err)
		}
	}
}

func TestShapeBuildsTheTreeItNames(t *testing.T) {
	const p, l, o = 200, 3, 2
	for name, build := range map[string]func(Order) (Tree, error){
		"binomial": func(order Order) (Tree, error) { return Binomial(p, order) },
		"kary:3":   func(order Order) (Tree, error) { return KAry(3, p, order) },
		"lame:4":   func(order Order) (Tree, error) { return Lame(4, p, order) },
		"optimal":  func(order Order) (Tree, error) { return Optimal(l, o, p, order) },
	} {
		for _, order := range []Order{Interleaved, InOrder} {
			shape, err := ParseShape(name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := shape.Tree(p, order, l, o)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := build(order)
			sameTree(t, got, want)
		}
	}
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	parse := func(s string) error { _, err := ParseShape(s); return err }
	order := func(s string) error { _, err := ParseOrder(s); return err }
	for _, c := range []struct {
		err  error
		want string
	}{
		{second(Binomial(0, Interleaved)), "tree of 0 ranks; allowed: 1 to 2147483648"},
		{second(Binomial(SizeMax+1, InOrder)), "tree of 2147483649 ranks; allowed: 1 to 2147483648"},
		{second(Binomial(inOrderMax+1, InOrder)), "in-order tree of 67108865 ranks; allowed: 1 to 67108864"},
		{second(Binomial(4, Order(9))), "order Order(9); allowed: interleaved, in-order"},
		{second(KAry(0, 5, Interleaved)), "k-ary tree with k of 0; allowed: 1 or more"},
		{second(KAry(1, 5, Order(9))), "allowed: interleaved, in-order"},
		{second(KAry(2, -1, Interleaved)), "tree of -1 ranks; allowed: 1 to"},
		{second(Lame(0, 5, Interleaved)), "lamé tree of order 0; allowed: 1 or more"},
		{second(Lame(1, 0, Interleaved)), "tree of 0 ranks"},
		{second(Optimal(1, 0, 5, Interleaved)), "overhead o of 0; allowed: 1 to"},
		{second(Optimal(-1, 1, 5, Interleaved)), "latency L of -1; allowed: 0 to"},
		{second(Lame(stepsMax, 2, Interleaved)), "allowed: what reaches all in 4194304 steps"},
		{parse("kary"), `tree "kary"; allowed: binomial, kary:k, lame:k (k ≥ 1), optimal`},
		{parse("kary:0"), "allowed: binomial, "},
		{parse("lame:x"), "allowed: binomial, "},
		{parse("binomial:2"), "allowed: binomial, "},
		{parse(""), "allowed: binomial, "},
		{order("inorder"), `order "inorder"; allowed: interleaved, in-order`},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) || strings.Contains(c.err.Error(), "\n") {
			t.Errorf("error %v, want one line with %q", c.err, c.want)
		}
	}
}

func TestMoreChildrenThanRanksMakeAStar(t *testing.T) {
	for _, k := range []int{9, 10, 1 << 31, 1 << 62} {
		tree, err := KAry(k, 10, Interleaved)
		if err != nil {
			t.Fatal(err)
		}
		for r := 1; r < 10; r++ {
			if tree.Parent(r) != 0 || tree.Child(0, r-1) != r || tree.Child(r, 0) != -1 {
				t.Fatalf("k=%d: %d is not a leaf below the root", k, r)
			}
		}
	}
}
