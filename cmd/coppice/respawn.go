package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-go/coppice/internal/launch"
)

// respawnFlags say what happens to processes that die.
type respawnFlags struct {
	Respawn    launch.Respawn `placeholder:"WHEN" group:"Start:" help:"Start processes that die again: always, never, or auto, which is if it is estimated to be better than going on without them (default never; --respawn alone: auto)."`
	RespawnMax *int           `placeholder:"MAX" group:"Start:" help:"Start so many again at most, in all (default: as many as processes)."`
	Restart    int            `placeholder:"N" group:"Start:" help:"If a process dies or fails, kill the others and start all again, up to N times."`
}

// replace makes the launcher replace processes that die, if the user wants it.
func (f *respawnFlags) replace(config *launch.Config) error {
	config.Respawn, config.Restart = f.Respawn, f.Restart
	switch {
	case f.RespawnMax == nil:
		return nil
	case *f.RespawnMax < 1:
		return fmt.Errorf("at most %d processes respawned; allowed: 1 or more", *f.RespawnMax)
	case f.Respawn == "" || f.Respawn == launch.RespawnNever:
		return errors.New("--respawn-max where none is respawned; allowed: with --respawn auto or always")
	}
	config.RespawnMax = *f.RespawnMax
	return nil
}

// bareRespawn gives --respawn its value, which may be omitted: kong has no flags of
// that kind. The next word is the value if it can be one, or if the program comes after
// a -- and so cannot be the next word.
func bareRespawn(args []string) []string {
	const flag = "--respawn"
	end := slices.Index(args, "--")
	var all []string
	for i := 0; i < len(args); i++ {
		if args[i] != flag || end >= 0 && i > end {
			all = append(all, args[i])
			continue
		}
		value := string(launch.RespawnAuto)
		if i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") && (end >= 0 || new(launch.Respawn).UnmarshalText([]byte(args[i+1])) == nil) {
			i++
			value = args[i]
		}
		all = append(all, flag+"="+value)
	}
	return all
}
