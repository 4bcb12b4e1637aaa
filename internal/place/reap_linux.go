package place

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/procstat"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

const (
	// helloTimeout bounds the answer of a guest that is asked to end.
	helloTimeout = 3 * time.Second
	// endSlack is what a guest gets beyond the grace to end itself.
	endSlack = 3 * time.Second
	// killTimeout bounds the wait after KILL.
	killTimeout = 10 * time.Second
)

// Reap ends the guest of the place under key and removes all that was made for it,
// half-made places and damaged records included. It returns when it is gone. Nothing
// to remove is success. A place whose spec names a workdir leaves that alone.
func (r *Root) Reap(ctx context.Context, key spec.Key, o EndOptions) error {
	return r.end(ctx, key, o, r.remove)
}

// Stop ends the guest of the place under key and keeps its directory, so that Provision
// starts it again. A place that does not run is left as it is.
func (r *Root) Stop(ctx context.Context, key spec.Key, o EndOptions) error {
	return r.end(ctx, key, o, nil)
}

// Discard removes what the Provision that returned rec has made, for a caller that
// could not use it. It touches nothing that somebody else may be using by now: a place
// that was there before or that has another guest meanwhile, and one with a key whose
// guest lives - that is found again by its key.
func (r *Root) Discard(ctx context.Context, rec Record) error {
	if !rec.Fresh {
		return nil
	}
	l, err := r.lock(ctx, rec.ID)
	if err != nil {
		return err
	}
	now, err := r.load(rec.ID)
	if err == nil && now == nil {
		l.unlockAndForget()
		return nil
	}
	if err != nil || now.PID != rec.PID || now.StartTicks != rec.StartTicks || (!rec.Ephemeral && r.running(now)) {
		l.unlock()
		return err
	}
	return r.finish(ctx, l, rec.ID, now, EndOptions{Guard: Guard{Epoch: rec.Epoch}}, r.remove)
}

// Running reports whether the guest of rec is alive.
func (r *Root) Running(rec Record) bool { return r.running(&rec) }

func (r *Root) end(ctx context.Context, key spec.Key, o EndOptions, remove func(id string) error) error {
	id := ID(r.Owner, key)
	if err := r.trusted(); err != nil {
		return err
	}
	if !dirExists(r.dirOf(id)) {
		return ctx.Err()
	}
	if err := r.prepare(); err != nil {
		return err
	}
	l, err := r.lock(ctx, id)
	if err != nil {
		return err
	}
	if !dirExists(r.dirOf(id)) {
		l.unlockAndForget()
		return nil
	}
	if err := o.check(ctx); err != nil {
		l.unlock()
		return err
	}
	rec, _ := r.load(id) // a damaged record hides nothing: the id alone leads to the guest
	return r.finish(ctx, l, id, rec, o, remove)
}

// finish ends the guest of a place, removes the place unless remove is nil, and gives
// the lock back.
func (r *Root) finish(ctx context.Context, l *lock, id string, rec *Record, o EndOptions, remove func(id string) error) error {
	err := r.endLocked(ctx, id, rec, o)
	if err != nil || remove == nil {
		l.unlock()
		return err
	}
	if err = remove(id); err == nil {
		err = r.endLate(id)
	}
	if err == nil {
		l.unlockAndForget()
	} else {
		l.unlock()
	}
	return err
}

// endLocked ends every process of a place and removes its control group. rec may be nil.
// The caller holds the lock.
func (r *Root) endLocked(ctx context.Context, id string, rec *Record, o EndOptions) error {
	if err := r.endGuest(ctx, id, rec, o); err != nil {
		return err
	}
	if rec != nil {
		r.remember(rec)
	}
	return r.unlimit(id, rec)
}

// endGuest ends every process of a place: by asking, then by force.
func (r *Root) endGuest(ctx context.Context, id string, rec *Record, o EndOptions) error {
	if rec != nil && rec.Owner != r.Owner {
		return &spec.Error{Code: spec.CodeExists, ID: id, Err: errors.New("the sandbox belongs to another owner")}
	}
	if rec != nil && o.Epoch < rec.Epoch {
		return &spec.Error{Code: spec.CodeStaleOwner, ID: id, Err: fmt.Errorf("epoch %d, the place has seen %d", o.Epoch, rec.Epoch)}
	}
	handles, err := r.open(id, rec)
	if err == nil && len(handles) == 0 && (rec == nil || rec.PID == 0) {
		handles, err = r.openUnnamed(ctx, id)
	}
	defer closeAll(handles)
	if err != nil {
		return err
	}
	grace := o.Grace
	if grace == 0 {
		grace = spec.DefaultGrace
	}
	asked, cancel := context.WithTimeout(ctx, max(grace, 0)+endSlack)
	defer cancel()
	if len(handles) == 0 {
		return r.endUnseen(asked, id, max(grace, 0), o.Epoch)
	}
	if err := r.ask(asked, id, max(grace, 0), o.Epoch); spec.CodeOf(err) == spec.CodeStaleOwner {
		return err
	} else if err == nil && waitAll(asked, handles) {
		return nil
	}
	if err := o.check(ctx); err != nil {
		return err
	}
	return force(handles)
}

// endUnseen ends a guest that takes connections and is no process here: it lives in
// another pid namespace, or /proc hides it. It can only be asked; that it is gone shows in a connection
// which it has never answered, and which the kernel closes with it.
func (r *Root) endUnseen(ctx context.Context, id string, grace time.Duration, epoch uint64) error {
	dir, err := openDir(r.dirOf(id))
	if err != nil {
		return nil // there is no place, so there is no guest
	}
	defer dir.Close()
	stays := func(err error) error {
		return &spec.Error{
			Code: spec.CodeUnavailable, ID: id, Err: fmt.Errorf("the guest lives in another pid namespace, or is hidden by /proc, and does not end: %w", err),
			Hint: "end it where it was started, or as root",
		}
	}
	for {
		witness, err := connect(ctx, dir)
		switch {
		case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOENT):
			return nil
		case err != nil:
			return stays(err)
		}
		if err := r.ask(ctx, id, grace, epoch); spec.CodeOf(err) == spec.CodeStaleOwner {
			witness.Close()
			return err
		}
		stop := context.AfterFunc(ctx, func() { _ = witness.SetReadDeadline(time.Unix(1, 0)) })
		_, err = witness.Read(make([]byte, 1))
		stop()
		witness.Close()
		if ctx.Err() != nil {
			return stays(err)
		}
	}
}

// endLate ends what was forked for a place whose directory has just been removed, and had
// no name yet when its processes were looked for: the starter was killed between the two.
// What gets its name from now on finds no directory, and ends by itself.
func (r *Root) endLate(id string) error {
	handles, err := openAll(servants(r.dirOf(id)))
	defer closeAll(handles)
	if err != nil || len(handles) == 0 {
		return err
	}
	return force(handles)
}

// unnamed is for how long a process that holds a guest's socket may have no name: it has
// been forked, and its program has not begun.
const unnamed = time.Second

// openUnnamed gives handles on the guest of a place whose start was cut short, once it has
// its name: none if nobody holds its socket, or nobody here.
func (r *Root) openUnnamed(ctx context.Context, id string) ([]*handle, error) {
	ctx, cancel := context.WithTimeout(ctx, unnamed)
	defer cancel()
	dir, err := openDir(r.dirOf(id))
	if err != nil {
		return nil, nil // there is no place
	}
	defer dir.Close()
	for ctx.Err() == nil {
		conn, err := connect(ctx, dir)
		if err != nil {
			return nil, nil // whoever asks it to end says why
		}
		conn.Close()
		if procs := servants(r.dirOf(id)); len(procs) > 0 {
			return openAll(procs)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, nil
}

// open gives handles on the guest of a place and its wrapper, without those that are
// gone or cannot be seen, and without what only a record says to be one of them.
func (r *Root) open(id string, rec *Record) ([]*handle, error) {
	var procs []proc
	switch boot, err := bootID(); {
	case err != nil:
		return nil, err
	case rec == nil || rec.PID == 0:
		procs = servants(r.dirOf(id))
	case rec.BootID == boot && !rec.foreign():
		for _, p := range []proc{{rec.PID, rec.StartTicks}, {rec.WrapperPID, rec.WrapperTicks}} {
			if p.pid == 0 {
				continue
			}
			ours, err := servesPlace(p, r.dirOf(id), id, rec.DropUID)
			if err != nil && !errors.Is(err, procstat.ErrHidden) {
				return nil, err
			}
			if ours {
				procs = append(procs, p)
			}
		}
	}
	return openAll(procs)
}

// openAll gives handles on those of the processes that are not gone; with an error too.
func openAll(procs []proc) ([]*handle, error) {
	var handles []*handle
	for _, p := range procs {
		h, err := p.open()
		if err != nil {
			return handles, err
		}
		if h != nil {
			handles = append(handles, h)
		}
	}
	return handles, nil
}

func closeAll(handles []*handle) {
	for _, h := range handles {
		h.close()
	}
}

// ask tells the guest to end the place. nil means that it was told.
func (r *Root) ask(ctx context.Context, id string, grace time.Duration, epoch uint64) error {
	dir, err := openDir(r.dirOf(id))
	if err != nil {
		return err
	}
	defer dir.Close()
	conn, err := connect(ctx, dir)
	if err != nil {
		return err
	}
	defer conn.Close()
	mux, err := greet(ctx, conn, id, epoch)
	if err != nil {
		return err
	}
	defer mux.Close()
	st, err := mux.Open(&wire.Request{Op: wire.OpShutdown, Shutdown: &wire.ShutdownRequest{GraceMS: grace.Milliseconds()}})
	if err != nil {
		return err
	}
	defer st.Close()
	defer st.Bind(ctx)()
	if _, err := wire.ReadReply(st); spec.CodeOf(err) == spec.CodeStaleOwner {
		return err
	}
	return nil // an answer that did not come may have been cut off by the end itself
}

func greet(ctx context.Context, conn net.Conn, id string, epoch uint64) (*wire.Mux, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	profile := wire.Local()
	hello := wire.HostHello{ID: id, Epoch: epoch, Client: "reaper", Profile: profile}
	if _, err := wire.SendHello(ctx, conn, hello); err != nil {
		return nil, err
	}
	return wire.HostMux(io.ReadWriteCloser(conn), profile)
}

// waitAll waits for the processes until ctx ends.
func waitAll(ctx context.Context, handles []*handle) bool {
	for _, h := range handles {
		if gone, err := h.wait(ctx); err != nil || !gone {
			return false
		}
	}
	return true
}

// force kills the processes and all that descend from them - where the guest is the
// init of a namespace the kernel does the latter - and waits until they are gone. The
// caller's ctx does not bound it: half a kill helps nobody.
func force(handles []*handle) error {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	var errs []error
	victims := handles
	for _, h := range handles {
		for _, p := range descendants(h.proc) {
			d, err := p.open()
			if err != nil {
				errs = append(errs, err)
			} else if d != nil {
				defer d.close()
				victims = append(victims, d)
			}
		}
	}
	for _, h := range victims {
		errs = append(errs, h.kill())
	}
	if !waitAll(ctx, victims) {
		errs = append(errs, fmt.Errorf("process %d does not end", handles[0].pid))
	}
	if err := errors.Join(errs...); err != nil {
		return &spec.Error{Code: spec.CodeUnavailable, Err: err}
	}
	return nil
}
