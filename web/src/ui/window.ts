// Which rows of a long list are in the document. Heights are known for rows that were drawn, and
// guessed for the others, so a window may turn out to be too small, or the list too short for the
// place of the view. This is arithmetic alone: the list asks again after it has measured its rows.

const OVER = 700; // pixels of rows beyond the view

/** A row, and how many pixels below the top of the view it begins. */
export interface Anchor { at: number; delta: number }

/** The rows from first up to last, without last, and the pixels of the rows above and under them. */
export interface Span { first: number; last: number; above: number; under: number }

/** The row that covers a place in the list. Below the end that is the last one. */
export function rowAt(n: number, height: (i: number) => number, place: number): Anchor {
  let at = 0;
  let y = 0;
  while (at < n - 1 && y + height(at) <= place) y += height(at++);
  return { at, delta: y - place };
}

/** The rows to draw for a view that is `tall` pixels high. The end of the list is { at: n, delta: tall }. */
export function span(n: number, height: (i: number) => number, anchor: Anchor, tall: number): Span {
  let first = anchor.at;
  let last = anchor.at;
  let top = anchor.delta;
  let bottom = anchor.delta;
  const up = () => { while (first > 0 && top > -OVER) top -= height(--first); };
  const down = () => { while (last < n && bottom < tall + OVER) bottom += height(last++); };
  up();
  down();
  // A view cannot be beyond the list: what it lacks at one end it shows at the other.
  if (first === 0 && top > 0) {
    bottom -= top;
    top = 0;
    down();
  }
  if (last === n && bottom < tall) {
    top += tall - bottom;
    up();
  }
  let above = 0;
  let under = 0;
  for (let i = 0; i < first; i++) above += height(i);
  for (let i = last; i < n; i++) under += height(i);
  return { first, last, above, under };
}

/** Whether rows are missing near the view. The drawn ones begin and end at these pixels below its top. */
export function lacks(s: Span, n: number, begin: number, end: number, tall: number): boolean {
  return (s.first > 0 && begin > -OVER / 3) || (s.last < n && end < tall + OVER / 3);
}
