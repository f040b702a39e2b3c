package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/launch"
)

// A command that has nothing to clean up leaves signals alone: they end it. Other commands catch them with untilSignal, and
// fail with the cause of the context; coppice run forwards them to its processes. The error is then launch.Interrupted,
// and the command ends by the signal.

// received returns the signals that end a run. Signals that the launcher was started to
// ignore stay ignored. SIGPIPE is caught so that it does not end the launcher:
// when the reader of the output is gone, the processes that write it end.
func received() (signals <-chan os.Signal, stop func()) {
	all := make(chan os.Signal, 16)
	notifyOfEnds(all)
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	return all, func() {
		signal.Stop(all)
		signal.Stop(pipe)
	}
}

// notifyOfEnds has the signals that end a run sent to a channel, except those that the command was started to ignore.
func notifyOfEnds(all chan<- os.Signal) {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(all, s)
		}
	}
}

// untilSignal returns a context that ends with the first signal that ends a run, which is its cause. The processes of an
// application have nothing to clean up: they are killed then. Other signals do nothing until stop is called, and after
// the first signal they never do: the command is about to end.
func untilSignal() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals, release := received()
	go func() {
		select {
		case s := <-signals:
			cancel(launch.Interrupted{Signal: s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		if ctx.Err() == nil {
			release()
		}
		cancel(nil)
	}
}

// untilFirstSignal is untilSignal for a command that may take long to end: a second signal ends it at once.
func untilFirstSignal() (ctx context.Context, stop func()) {
	ctx, stop = untilSignal()
	context.AfterFunc(ctx, func() {
		if errors.As(context.Cause(ctx), new(launch.Interrupted)) {
			signal.Reset()
		}
	})
	return ctx, stop
}

// interruptedOr returns the signal that has ended the context, or else err.
func interruptedOr(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// endBy ends the command by a signal that it has received and handled. The caller of the command sees that, and a
// shell ends the loop that the command is in. SIGQUIT would dump core. Where a process cannot send itself a signal
// (Windows), endBy returns.
func endBy(s syscall.Signal) {
	if s == syscall.SIGQUIT {
		return
	}
	signal.Reset(s)
	self, err := os.FindProcess(os.Getpid())
	if err == nil && self.Signal(s) == nil {
		time.Sleep(time.Second) // the signal comes before
	}
}
