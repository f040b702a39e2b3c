package main

import (
	"runtime/debug"
	"testing"
)

func TestRevisionNamesWhatWasBuilt(t *testing.T) {
	built := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	revised := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	for want, info := range map[string]*debug.BuildInfo{
		"(devel)":                  nil,
		"v0.3.0":                   built("v0.3.0", revised),
		"devel-0123456789ab":       built("(devel)", revised),
		"devel-0123456789ab+dirty": built("", revised, debug.BuildSetting{Key: "vcs.modified", Value: "true"}),
	} {
		if got := revision(info); got != want {
			t.Errorf("%+v: %s, want %s", info, got, want)
		}
	}
	if got := revision(built("(devel)")); got != "(devel)" {
		t.Errorf("without a revision: %s", got)
	}
}
