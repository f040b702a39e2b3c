package node

import (
	"context"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// Backups of reductions. What a task has combined goes back to the process of the task whose
// value it has combined last (collective.Program.Keeper), which keeps it, as it keeps copies of
// what tasks save (copies.go). A task that is run again takes it from there and does not combine
// again what led to it (Spared). What nobody has any more is combined again, so there is one copy,
// nobody waits for it, and none takes its place when it is lost.

// Backup says which values that were combined with code of the user are kept elsewhere.
type Backup uint8

// When that is.
const (
	BackupByCost Backup = iota // those that took long, see backupGain
	BackupAlways
	BackupNever
)

// What a backup costs, roughly: the work to send and receive a message, and to move its bytes.
// By cost, it is made when to combine again what there is no backup of would take backupGain
// times as long: then backups add at most a tenth to the work.
const (
	backupMessage = 20 * time.Microsecond
	backupByte    = time.Nanosecond
	backupGain    = 10
)

// worth tells whether a value is kept elsewhere that took the task some time.
func (b Backup) worth(took time.Duration, size int) bool {
	switch b {
	case BackupAlways:
		return true
	case BackupNever:
		return false
	}
	return took >= backupGain*(backupMessage+time.Duration(size)*backupByte)
}

// backupKey names what a step of the operation has combined. No Once has an even key.
func (o *operation) backupKey(step int) recovery.Key {
	key := protocol.Mix(protocol.Mix(o.m.group, o.seq), uint64(step)) << 1
	return o.m.named(max(key, 2))
}

// backs tells whether the operation has backups.
func (o *operation) backs() bool {
	return o.works && o.backup != BackupNever && o.m.p.logs() && !o.plan.is(unlogged) && o.sched.program.Segments == 1
}

// backUp sends what a step has combined, which took some time, to who keeps it.
func (o *operation) backUp(step int, took time.Duration) {
	if o.unsaved += took; !o.backs() {
		return
	}
	p, st := o.m.p, &o.sched.program.Steps[step]
	if !o.backup.worth(o.unsaved, o.sched.store.Length(st)) {
		return
	}
	keeper := -1
	if r, ok := o.sched.program.Keeper(step); ok {
		keeper = p.roster.Owner(o.m.taskOf(int(r)))
	}
	at := backupAt(keeper, func() []protocol.Rank { return p.ring(p.view(), p.self()) }, func(rank int) bool { return rank != p.cfg.Rank && !p.peerAt(rank).dead })
	if at < 0 {
		return
	}
	if o.counted(); p.dead {
		return
	}
	o.unsaved = 0
	value, _ := o.sched.store.Take(st, nil)
	e := keyed(o.backupKey(step), opCopy)
	e.sign = o.sign
	p.peerAt(at).send(e, value, nil)
}

// backupAt is the process that keeps a backup: that of the task's keeper, or, if that is not another one that
// lives, the first on the ring that is; −1: there is none.
func backupAt(keeper int, ring func() []protocol.Rank, other func(rank int) bool) int {
	if keeper >= 0 && other(keeper) {
		return keeper
	}
	for _, rank := range ring() {
		if other(int(rank)) {
			return int(rank)
		}
	}
	return -1
}

// restore does without combining what a step would, if there is a backup of that, or of what
// follows from it. It waits until that is known.
func (o *operation) restore(ctx context.Context, step int) (spared bool, err error) {
	p := o.m.p
	if !o.backs() || !p.reran(o.m.task) {
		return false, nil
	}
	steps := o.sched.program.Steps
	for i := step; i < len(steps); i++ {
		for steps[i].Kind == collective.FoldStep && o.err == nil && !p.dead && !p.recovery.rules.Told(o.backupKey(i)) {
			if err := p.awaitRules(ctx); err != nil {
				return false, err
			}
		}
	}
	if !o.sched.program.Spared(step, func(i int) bool { return o.backupOf(i) != nil }) {
		return false, nil
	}
	if r := o.backupOf(step); r != nil {
		o.sched.store.Restore(&steps[step], r.value)
	}
	return true, nil
}

// backupOf is the backup of what a step combines, if there is one.
func (o *operation) backupOf(step int) *replica {
	r := o.m.p.recovery.epochs.copies[o.backupKey(step)]
	if r == nil || r.sign != o.sign {
		return nil
	}
	r.pooled = false // the operation refers to it
	return r
}

// backupFits tells whether there is room for a backup that comes, beside the log and other backups. They share
// what the log may take, and are the first to be done without.
func backupFits(log, backups, size, buffer int64) bool { return log+backups+size <= buffer/2 }
