// The arithmetic of the list that shows a transcript, without a browser: a model draws the rows,
// measures them and keeps the view inside the list, as a browser does.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { build } from 'esbuild';
import { root } from './harness.mjs';

const made = await build({ absWorkingDir: root + '/web', entryPoints: ['src/ui/window.ts'], bundle: true, format: 'esm', write: false });
const { lacks, rowAt, span } = await import('data:text/javascript,' + encodeURIComponent(made.outputFiles[0].text));

const GUESS = 56;
const TALL = 560;

/** A list whose rows have these heights once they are drawn. */
class List {
  constructor(real, scroll = 0) {
    Object.assign(this, { real, scroll, n: real.length, known: new Map() });
  }
  height = (i) => this.known.get(i) ?? GUESS;
  /** The row at the top of the view. */
  seen = () => rowAt(this.n, this.height, this.scroll);

  /** Draws until no row is missing near the view. The anchor is what is seen, or a row that is wanted at a place. */
  settle(anchor, wanted = false) {
    for (let rounds = 0; ; rounds++) {
      assert.ok(rounds <= this.n, 'it draws for ever');
      const { first, last, above, under } = (this.span = span(this.n, this.height, anchor, TALL));
      let y = above;
      for (let i = first; i < last; i++) {
        if (wanted && i === anchor.at) this.scroll = y - anchor.delta;
        this.known.set(i, this.real[i]);
        y += this.real[i];
      }
      Object.assign(this, { begin: above, end: y, total: y + under });
      this.scroll = Math.max(0, Math.min(this.scroll, this.total - TALL));
      if (!lacks(this.span, this.n, this.begin - this.scroll, this.end - this.scroll, TALL)) break;
      if (!wanted) anchor = this.seen();
    }
    assert.ok(this.begin <= this.scroll && this.end >= Math.min(this.scroll + TALL, this.total), 'a part of the view is empty');
  }
}

const few = Array.from({ length: 60 }, () => 33);

test('a list that became shorter than the place of the view is drawn where the view is', () => {
  // 600 rows were scrolled to some place; then 60 others came, of which none was ever drawn.
  for (let place = 0; place < 24_000; place += 97) {
    const l = new List(few, place);
    l.settle(l.seen());
  }
});

test('a row that is wanted at the top is there, or as near as the end allows', () => {
  for (let at = 0; at < few.length; at++) {
    const l = new List(few);
    l.settle({ at, delta: 12 }, true);
    const top = l.begin + 33 * (at - l.span.first) - l.scroll;
    assert.ok(top === 12 || l.scroll === 0 || l.scroll === l.total - TALL, `row ${at} is at ${top}`);
  }
});

test('the end has the rows above it, and a short list is drawn whole', () => {
  const at = (n) => span(n, () => 40, { at: n, delta: TALL }, TALL);
  assert.deepEqual(at(5), { first: 0, last: 5, above: 0, under: 0 });
  assert.deepEqual(at(100), { first: 68, last: 100, above: 2720, under: 0 });
  assert.deepEqual(span(0, () => 40, { at: 0, delta: 0 }, TALL), { first: 0, last: 0, above: 0, under: 0 });
  // A row that is said to be below the top of the view, and has nothing above it.
  assert.deepEqual(span(100, () => 40, { at: 0, delta: 900 }, TALL), span(100, () => 40, { at: 0, delta: 0 }, TALL));
});

test('lists of any heights settle at any place', () => {
  let seed = 1;
  const random = (n) => (seed = (seed * 48271) % 2147483647) % n; // the same numbers in every run
  for (let i = 0; i < 3000; i++) {
    const l = new List(Array.from({ length: 1 + random(200) }, () => (random(20) ? 1 + random(120) : random(3000))), random(15_000));
    l.settle({ at: random(l.n), delta: random(2000) - 1000 }, i % 2 === 0);
  }
});
