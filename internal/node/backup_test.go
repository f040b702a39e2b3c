package node

import (
	"slices"
	"testing"
	"time"

	"github.com/coppice-go/coppice/protocol"
)

func TestWhichBackupsAreWorthIt(t *testing.T) {
	const small = backupGain * backupMessage
	for _, c := range []struct {
		backup Backup
		took   time.Duration
		size   int
		want   bool
	}{
		{BackupByCost, small, 0, true},
		{BackupByCost, small - 1, 0, false},
		{BackupByCost, small, 1, false},
		{BackupByCost, small + 10*time.Millisecond, 1 << 20, false},
		{BackupByCost, small + backupGain*(1<<20)*backupByte, 1 << 20, true},
		{BackupAlways, 0, 1 << 30, true},
		{BackupNever, time.Hour, 0, false},
	} {
		if got := c.backup.worth(c.took, c.size); got != c.want {
			t.Errorf("%d: %d bytes that took %v are worth a backup: %t, want %t", c.backup, c.size, c.took, got, c.want)
		}
	}
}

func TestWhereBackupsAreKept(t *testing.T) {
	const self = 0
	for _, c := range []struct {
		keeper int // −1: there is none
		ring   []protocol.Rank
		dead   []int
		want   int
	}{
		{keeper: 2, ring: []protocol.Rank{1, 2, 3}, want: 2},
		{keeper: 2, ring: []protocol.Rank{1, 2, 3}, dead: []int{2}, want: 1},
		{keeper: self, ring: []protocol.Rank{1, 2, 3}, want: 1},
		{keeper: -1, ring: []protocol.Rank{3, 1, 2}, dead: []int{3}, want: 1},
		{keeper: 1, ring: []protocol.Rank{1, 2}, dead: []int{1, 2}, want: -1},
		{keeper: self, want: -1},
	} {
		ring := func() []protocol.Rank { return c.ring }
		other := func(rank int) bool { return rank != self && !slices.Contains(c.dead, rank) }
		if got := backupAt(c.keeper, ring, other); got != c.want {
			t.Errorf("%+v: process %d keeps it", c, got)
		}
	}
}

func TestBackupsHaveHalfOfTheLog(t *testing.T) {
	for _, c := range []struct {
		log, backups, size int64
		want               bool
	}{{0, 0, 50, true}, {0, 0, 51, false}, {20, 20, 10, true}, {20, 20, 11, false}, {60, 0, 0, false}} {
		if got := backupFits(c.log, c.backups, c.size, 100); got != c.want {
			t.Errorf("%d bytes fit beside a log of %d and backups of %d: %t, want %t", c.size, c.log, c.backups, got, c.want)
		}
	}
}
