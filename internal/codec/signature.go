package codec

import (
	"hash"
	"hash/fnv"
	"io"
	"reflect"
	"strconv"
)

// signature hashes a type's name and structure. Names alone do not suffice: types declared in two
// functions may share one.
func signature(t reflect.Type) uint64 {
	s := signer{fnv.New64a(), map[reflect.Type]int{}}
	s.add(t)
	return s.Sum64()
}

type signer struct {
	hash.Hash64
	seen map[reflect.Type]int
}

// word hashes a text so that it cannot run into the next.
func (s signer) word(w string) {
	io.WriteString(s, strconv.Itoa(len(w))+":"+w)
}

func (s signer) number(n int) { s.word(strconv.Itoa(n)) }

func (s signer) add(t reflect.Type) {
	if i, ok := s.seen[t]; ok {
		s.word("again")
		s.number(i)
		return
	}
	s.seen[t] = len(s.seen)
	s.word(t.PkgPath())
	s.word(t.String())
	s.word(t.Kind().String())
	switch t.Kind() {
	case reflect.Array:
		s.number(t.Len())
		s.add(t.Elem())
	case reflect.Slice, reflect.Pointer:
		s.add(t.Elem())
	case reflect.Map:
		s.add(t.Key())
		s.add(t.Elem())
	case reflect.Struct:
		s.number(t.NumField())
		for f := range t.Fields() {
			s.word(f.Name)
			s.word(string(f.Tag))
			s.add(f.Type)
		}
	}
}
