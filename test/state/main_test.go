package state_test

import (
	"testing"

	"github.com/coppice-go/coppice/test/stage"
)

func TestMain(m *testing.M) { stage.Main(m) }
