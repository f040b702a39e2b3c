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

// A command that has nothing to clean up leaves signals alone: they end it. One that has takes them by untilSignal, and
// fails with the cause of the context; coppice run passes them on to its processes. The error is launch.Interrupted
// then, and the command ends by the signal.

// received are the signals that end a run. What the launcher was started to
// ignore stays ignored. SIGPIPE is taken so that it does not end the launcher:
// whoever no longer reads the output ends the processes that write it.
func received() (signals <-chan os.Signal, stop func()) {
	all := make(chan os.Signal, 16)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(all, s)
		}
	}
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	return all, func() {
		signal.Stop(all)
		signal.Stop(pipe)
	}
}

// untilSignal is a context that ends with the first signal that ends a run, which is its cause. The processes of an
// application have nothing to clean up: they are killed then. Other signals do nothing until stop is called, and after
// the first never: the command is about to end.
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

// untilFirstSignal is untilSignal for what may take long to end: a second signal ends the command at once.
func untilFirstSignal() (ctx context.Context, stop func()) {
	ctx, stop = untilSignal()
	context.AfterFunc(ctx, func() {
		if errors.As(context.Cause(ctx), new(launch.Interrupted)) {
			signal.Reset()
		}
	})
	return ctx, stop
}

// interruptedOr is the signal that has ended the context, or else err.
func interruptedOr(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// endBy ends the command by a signal that it has received, and dealt with: who called it sees that, and a
// shell ends the loop that the command is in. SIGQUIT would dump core. Where a process cannot send itself a signal
// (Windows) it returns.
func endBy(s syscall.Signal) {
	if s == syscall.SIGQUIT {
		return
	}
	signal.Reset(s)
	self, err := os.FindProcess(os.Getpid())
	if err == nil && self.Signal(s) == nil {
		time.Sleep(time.Second) // it comes before
	}
}
