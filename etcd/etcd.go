// Package etcd lets the processes of a job find each other through etcd, if COPPICE_RENDEZVOUS says so:
//
//	COPPICE_RENDEZVOUS=etcd://a:2379,b:2379,c:2379/JOB
//
// A program imports it only for that:
//
//	import _ "github.com/coppice-go/coppice/etcd"
//
// It is a module of its own because not every program wants its dependencies: the etcd client, with gRPC.
//
// # What is in etcd
//
// Each process has one lease, and under it:
//
//	/coppice/JOB/door/LIFE   where it listens for processes that look for the job; LIFE is a number that the process has drawn
//	/coppice/JOB/rank/RANK   LIFE, if its rank was drawn: a transaction has created the key, so no other process has it
//
// If a view splits into halves, a key without a lease names the process whose half continues. The key stays:
//
//	/coppice/JOB/view/ID/NUMBER   RANK.INCARNATION; ID is the id of this run of the job
//
// The oldest doors are the job's seeds. A process that ends normally revokes its lease; etcd removes the keys of a killed process
// when its lease expires. A process that has lost its lease takes a new one, with the same keys, except for a rank that another process
// has by then. Nothing in a running job depends on it.
package etcd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func init() {
	control.RegisterRendezvous("etcd", start)
	control.RegisterRendezvous("etcds", start)
}

// Times.
const (
	leaseDefault = 10 * time.Second
	leaseMin     = 2 * time.Second  // etcd grants no shorter ones
	reachMax     = 10 * time.Second // how long etcd may take to answer at the start
	answerMax    = 15 * time.Second // how long etcd may take to answer a request later: its members may be electing a leader
	callMax      = 4 * time.Second  // limit of one call
	nameMax      = time.Second      // limit of one try to be named for a view
	again        = time.Second      // pause between two tries to replace a lost lease
	farewellMax  = time.Second      // limit for revoking the lease
)

// doorsMax is how many doors are seeds.
const doorsMax = 8

// door is what a process registers.
type door struct {
	Address string `json:"address"`
	Host    string `json:"host"`
	Rank    int    `json:"rank"` // −1: not drawn yet
	Size    int    `json:"size"`
	Grow    int    `json:"grow"`
}

// registration is one process in etcd.
type registration struct {
	who    control.Registrant
	set    settings
	client *clientv3.Client
	prefix string
	life   string
	log    *slog.Logger
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	lease clientv3.LeaseID
	rank  int
	doors map[string]found // by key
	known int64            // the revision of etcd that they were read in
}

// found is a door that etcd has listed.
type found struct {
	door
	made int64 // the revision in which its key was created
}

// start registers a process.
func start(ctx context.Context, who control.Registrant) (control.Rendezvous, error) {
	set, err := readSettings(who)
	if err != nil {
		return nil, err
	}
	client, err := set.connect(ctx)
	if err != nil {
		return nil, err
	}
	r := &registration{
		who: who, set: set, client: client, prefix: "/coppice/" + who.Job + "/", life: strconv.FormatUint(who.Life, 16),
		log: who.Logger, rank: who.Rank, doors: map[string]found{},
	}
	background, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	if err := r.enter(ctx, background); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// enter takes a lease, reads the doors of the others, draws a rank and registers the door.
func (r *registration) enter(ctx, background context.Context) error {
	if err := r.insist(ctx, r.grant); err != nil {
		return err
	}
	if err := r.insist(ctx, r.list); err != nil {
		return err
	}
	if err := r.agree(); err != nil {
		return err
	}
	r.wg.Go(func() { r.keep(background) })
	if r.who.Rank < 0 {
		if err := r.draw(ctx, -1); err != nil {
			return err
		}
	}
	if err := r.insist(ctx, r.open); err != nil {
		return err
	}
	if err := r.insist(ctx, r.list); err != nil { // now with this door
		return err
	}
	r.wg.Go(func() { r.watch(background) })
	return nil
}

// insist repeats a request until etcd answers, for as long as it may take to elect a leader. The request may be carried out twice.
func (r *registration) insist(ctx context.Context, ask func(context.Context) error) error {
	for began := time.Now(); ; pause(ctx) {
		err := ask(ctx)
		switch {
		case err == nil:
			return nil
		case !passes(err) || time.Since(began) > answerMax-callMax || ctx.Err() != nil:
			return r.set.explain(err)
		}
	}
}

// Rank implements control.Rendezvous.
func (r *registration) Rank() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rank
}

// Doors implements control.Rendezvous.
func (r *registration) Doors() (doors []control.Door) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]found, 0, len(r.doors))
	for _, f := range r.doors {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(a.made, b.made) })
	for _, f := range all[:min(len(all), doorsMax)] {
		doors = append(doors, control.Door{Address: f.Address, Host: f.Host, Own: f.Address == r.who.Door && f.Host == r.who.Host})
	}
	return doors
}

// Close implements control.Rendezvous.
func (r *registration) Close() {
	r.cancel()
	r.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), farewellMax)
	defer cancel()
	if _, err := r.client.Revoke(ctx, r.id()); err != nil { // then the lease expires by itself
		r.log.Debug("etcd: lease not revoked", "error", err)
	}
	_ = r.client.Close()
}

func (r *registration) id() clientv3.LeaseID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lease
}

// grant takes a lease.
func (r *registration) grant(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	granted, err := r.client.Grant(ctx, int64((r.set.lease+time.Second-1)/time.Second))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lease = granted.ID
	return nil
}

func (r *registration) doorKey() string { return r.prefix + "door/" + r.life }

func (r *registration) rankKey(rank int) string { return r.prefix + "rank/" + strconv.Itoa(rank) }

// open registers the door. An existing key keeps its place among the seeds.
func (r *registration) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	value, err := json.Marshal(door{r.who.Door, r.who.Host, r.Rank(), r.who.Size, r.who.Grow})
	if err != nil {
		return err
	}
	_, err = r.client.Put(ctx, r.doorKey(), string(value), clientv3.WithLease(r.id()))
	return err
}

// list reads all doors.
func (r *registration) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	got, err := r.client.Get(ctx, r.prefix+"door/", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.doors)
	for _, kv := range got.Kvs {
		r.learn(kv)
	}
	r.known = got.Header.Revision
	return nil
}

// learn records a door. r.mu is held.
func (r *registration) learn(kv *mvccpb.KeyValue) {
	var d door
	if err := json.Unmarshal(kv.Value, &d); err != nil {
		r.log.Warn("etcd: bad door", "key", string(kv.Key), "error", err)
		return
	}
	r.doors[string(kv.Key)] = found{d, kv.CreateRevision}
}

// agree refuses a process whose job has another size than that of the registered processes.
func (r *registration) agree() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.doors {
		if f.Size != r.who.Size || f.Grow != r.who.Grow {
			return fmt.Errorf("%s=%d and %s=%d, but a process of the job at %s has %d and %d; allowed: the same for all, or another name of the job in %s",
				control.VarSize, r.who.Size, control.VarGrow, r.who.Grow, f.Address, f.Size, f.Grow, control.VarRendezvous)
		}
	}
	return nil
}

// watch follows the doors. While etcd does not answer, its last answer stands.
func (r *registration) watch(ctx context.Context) {
	for ctx.Err() == nil {
		watched, cancel := context.WithCancel(ctx)
		for w := range r.client.Watch(watched, r.prefix+"door/", clientv3.WithPrefix(), clientv3.WithRev(r.next())) {
			if w.Err() != nil { // later changes were compacted away, or the server is gone
				break
			}
			r.mu.Lock()
			for _, e := range w.Events {
				if e.Type == clientv3.EventTypeDelete {
					delete(r.doors, string(e.Kv.Key))
				} else {
					r.learn(e.Kv)
				}
			}
			r.known = w.Header.Revision
			r.mu.Unlock()
		}
		cancel()
		pause(ctx)
		if err := r.list(ctx); err != nil {
			r.log.Debug("etcd: no doors", "error", err)
		}
	}
}

// next returns the first revision whose changes are not known.
func (r *registration) next() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known + 1
}

// pause waits before the next try.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(again):
	}
}

// keep keeps the lease alive, and takes another one with the same keys when it is lost.
func (r *registration) keep(ctx context.Context) {
	for ctx.Err() == nil {
		if answers, err := r.client.KeepAlive(ctx, r.id()); err == nil {
			for range answers { // until the lease is lost
			}
		}
		if ctx.Err() != nil {
			return
		}
		r.log.Info("etcd: lease lost", "job", r.who.Job)
		for ctx.Err() == nil {
			err := r.renew(ctx)
			if err == nil {
				r.log.Info("etcd: lease taken again", "job", r.who.Job)
				break
			}
			r.log.Debug("etcd: no lease", "error", err)
			pause(ctx)
		}
	}
}

// renew takes a lease in place of a lost one.
func (r *registration) renew(ctx context.Context) error {
	if err := r.grant(ctx); err != nil {
		return err
	}
	if rank := r.Rank(); r.who.Rank < 0 && rank >= 0 {
		if _, err := r.claim(ctx, rank); err != nil { // the job refuses the process that has the rank by now, and that one draws another
			return err
		}
	}
	if r.who.Rank < 0 && r.Rank() < 0 {
		return nil // the process is drawing a rank, and registers its door then
	}
	return r.open(ctx)
}

// claim takes a rank if it is free or already this process's own.
func (r *registration) claim(ctx context.Context, rank int) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	key := r.rankKey(rank)
	put := clientv3.OpPut(key, r.life, clientv3.WithLease(r.id()))
	// A transaction that etcd has carried out, and whose answer was lost, finds its own key.
	done, err := r.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(put).
		Else(clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Value(key), "=", r.life)}, []clientv3.Op{put}, nil)).Commit()
	if err != nil {
		return false, err
	}
	return done.Succeeded || done.Responses[0].GetResponseTxn().Succeeded, nil
}

// draw takes the lowest free rank, except for one. If there is none it waits: a rank becomes free when the lease of a dead process expires.
func (r *registration) draw(ctx context.Context, not int) error {
	began := time.Now()
	for {
		rank := -1
		err := r.insist(ctx, func(ctx context.Context) (err error) {
			rank, err = r.drawOnce(ctx, not)
			return err
		})
		if err != nil {
			return err
		}
		if rank >= 0 {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.rank = rank
			return nil
		}
		if time.Since(began) > r.who.Wait || ctx.Err() != nil {
			return fmt.Errorf("%s: all %d ranks of the job %s are taken, for %v; allowed: a higher %s for all its processes, or to wait until one has ended",
				control.VarRendezvous, r.who.Size+r.who.Grow, r.who.Job, time.Since(began).Round(time.Second), control.VarGrow)
		}
		pause(ctx)
	}
}

// drawOnce takes the lowest free rank, except for one; −1: none is free.
func (r *registration) drawOnce(ctx context.Context, not int) (int, error) {
	taken, err := r.taken(ctx)
	if err != nil {
		return -1, err
	}
	for rank := range r.who.Size + r.who.Grow {
		if taken[rank] || rank == not {
			continue
		}
		if ok, err := r.claim(ctx, rank); ok || err != nil {
			return rank, err
		}
	}
	return -1, nil
}

// taken returns the ranks that other processes have.
func (r *registration) taken(ctx context.Context) (map[int]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	got, err := r.client.Get(ctx, r.prefix+"rank/", clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	taken := map[int]bool{}
	for _, kv := range got.Kvs {
		if rank, err := strconv.Atoi(strings.TrimPrefix(string(kv.Key), r.prefix+"rank/")); err == nil {
			taken[rank] = string(kv.Value) != r.life // a claim whose answer was lost has been granted
		}
	}
	return taken, nil
}

// Name implements control.Rendezvous.
func (r *registration) Name(ctx context.Context, job [16]byte, view uint64, who control.Identity) (bool, error) {
	key, name := fmt.Sprintf("%sview/%x/%d", r.prefix, job, view), fmt.Sprintf("%d.%d", who.Rank(), who.Incarnation())
	for {
		once, cancel := context.WithTimeout(ctx, nameMax)
		done, err := r.client.Txn(once).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, name)).Else(clientv3.OpGet(key)).Commit()
		cancel()
		switch {
		case err == nil && done.Succeeded:
			return true, nil
		case err == nil:
			kvs := done.Responses[0].GetResponseRange().Kvs
			return len(kvs) == 1 && string(kvs[0].Value) == name, nil // it may name this process: the answer to an earlier try was lost
		case ctx.Err() != nil || !passes(err):
			return false, err
		}
	}
}

// Redraw implements control.Rendezvous.
func (r *registration) Redraw(ctx context.Context) (int, error) {
	before := r.Rank()
	key := r.rankKey(before)
	err := r.insist(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callMax)
		defer cancel()
		_, err := r.client.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", r.life)).Then(clientv3.OpDelete(key)).Commit()
		return err
	})
	if err == nil {
		err = r.draw(ctx, before)
	}
	if err == nil {
		err = r.insist(ctx, r.open)
	}
	return r.Rank(), err
}
