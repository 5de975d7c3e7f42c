package view

// maxEffects bounds the bells and the like that are kept while the output is skipped.
const maxEffects = 64 << 10

// Pending is how many bytes the next Flush writes, beside those of a frame.
func (w *Window) Pending() int { return len(w.buf) }

// Skip gives up to show everything that the program writes, because the person's terminal
// is too slow for it. Until the next Flush only the model takes the output; Flush then shows
// the screen as the model has it. The lines between are not in the person's scrollback.
func (w *Window) Skip() {
	if w.way != passing || w.skipping {
		return
	}
	w.skipping = true
	w.filter.Effects = true
}

// Skipping reports whether the output is skipped.
func (w *Window) Skipping() bool { return w.skipping }

// skip keeps only what acts without being shown, as far as there is room.
func (w *Window) skip(p []byte) {
	effects := w.filter.Append(nil, p)
	if len(w.buf)+len(effects) <= maxEffects {
		w.buf = append(w.buf, effects...)
	}
}

// catchUp shows the screen as the model has it, after output was skipped.
func (w *Window) catchUp() {
	w.skipping = false
	w.filter.Effects = false
	if w.fits() {
		w.repaint(w.comeBack())
	} else {
		w.draw()
	}
	w.follow()
}
