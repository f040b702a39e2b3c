package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

func (versionCmd) Run(c *console) error {
	_, err := fmt.Fprintln(c.stdout, version())
	return err
}

// version is that of the command: its module's, or the revision it was built from, and Go's.
func version() string {
	info, _ := debug.ReadBuildInfo()
	return fmt.Sprintf("coppice %s %s %s/%s", revision(info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// revision names what a program was built from.
func revision(info *debug.BuildInfo) string {
	const unknown = "(devel)"
	if info == nil {
		return unknown
	}
	if v := info.Main.Version; v != "" && v != unknown {
		return v
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	name := settings["vcs.revision"]
	if name == "" {
		return unknown
	}
	name = "devel-" + name[:min(12, len(name))]
	if settings["vcs.modified"] == "true" {
		name += "+dirty"
	}
	return name
}
