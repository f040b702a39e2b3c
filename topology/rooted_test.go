package topology

import "testing"

func TestRootedTurnsEveryRank(t *testing.T) {
	const p = 23
	for _, k := range kinds() {
		for _, order := range []Order{Interleaved, InOrder} {
			tree := k.tree(t, p, order)
			for root := range p {
				turned := Rooted(tree, root)
				if turned.Size() != p || turned.Root() != root || turned.Parent(root) != -1 {
					t.Fatalf("%s: root %d, parent %d, want root %d", k.name, turned.Root(), turned.Parent(root), root)
				}
				for r := range p {
					q := (r + root) % p
					if c, d := tree.Parent(r), turned.Parent(q); r > 0 && d != (c+root)%p {
						t.Fatalf("%s, root %d: parent of %d is %d, want %d", k.name, root, q, d, (c+root)%p)
					}
					for i := 0; ; i++ {
						c, d := tree.Child(r, i), turned.Child(q, i)
						if c < 0 {
							if d != -1 {
								t.Fatalf("%s, root %d: child %d of %d is %d, want none", k.name, root, i, q, d)
							}
							break
						}
						if d != (c+root)%p {
							t.Fatalf("%s, root %d: child %d of %d is %d, want %d", k.name, root, i, q, d, (c+root)%p)
						}
					}
				}
			}
		}
	}
}

func TestRootedAtItsRootIsTheTreeItself(t *testing.T) {
	tree, _ := Binomial(8, Interleaved)
	if Rooted(tree, 0) != tree {
		t.Error("Rooted(tree, 0) is another tree")
	}
	if Rooted(Rooted(tree, 3), 0) != tree {
		t.Error("turning back gives another tree")
	}
	if got := Rooted(Rooted(tree, 3), -1).Root(); got != 7 {
		t.Errorf("root −1 of 8 is %d, want 7", got)
	}
}

func TestTabulateGivesTheSameAnswers(t *testing.T) {
	for _, k := range kinds() {
		for _, order := range []Order{Interleaved, InOrder} {
			for _, p := range []int{1, 2, 3, 64, 101} {
				tree := k.tree(t, p, order)
				sameTree(t, Tabulate(tree), tree)
				turned := Rooted(tree, 5)
				sameTree(t, Tabulate(turned), turned)
			}
		}
	}
}
