// Recordings as data: reads an asciicast piece by piece, and says what is shown at a time. It knows
// neither the page nor the terminal. internal/terminal/cast reads the same format for `trl play`.

export interface Header { cols: number; rows: number; title: string; command: string; idle: number }
/** Something that happened, in seconds since the beginning: output, a new size, a marker, the exit. */
export interface CastEvent { at: number; code: string; data: string }

export class Cast {
  header: Header | undefined;
  readonly events: CastEvent[] = [];
  /** The markers, as places to jump to. */
  readonly markers: CastEvent[] = [];
  private version = 3;
  private at = 0;
  private rest = '';

  /** Takes the next piece of the file. A line that has no end yet waits for the next piece. */
  add(text: string): void {
    const lines = (this.rest + text).split('\n');
    this.rest = lines.pop()!;
    for (const line of lines) this.line(line.trim());
  }

  private line(line: string): void {
    if (line === '' || line[0] === '#') return;
    const v = JSON.parse(line) as unknown;
    if (!this.header) return this.head(v as Record<string, unknown>);
    if (!Array.isArray(v) || typeof v[0] !== 'number' || typeof v[1] !== 'string' || typeof v[2] !== 'string') throw new Error('this is not an event of a recording');
    // Version 2 has the time since the beginning, version 3 the time since the event before.
    const s = Math.max(0, v[0]);
    this.at = this.version === 2 ? Math.max(this.at, s) : this.at + s;
    const e = { at: this.at, code: v[1], data: v[2] };
    this.events.push(e);
    if (e.code === 'm') this.markers.push(e);
  }

  private head(h: Record<string, unknown>): void {
    this.version = Number(h['version']);
    const term = (h['term'] ?? {}) as Record<string, unknown>;
    const [cols, rows] = (this.version === 2 ? [h['width'], h['height']] : [term['cols'], term['rows']]).map(Number);
    if ((this.version !== 2 && this.version !== 3) || !(cols! > 0) || !(rows! > 0)) throw new Error('this is not an asciicast of version 2 or 3');
    this.header = { cols: cols!, rows: rows!, title: String(h['title'] ?? ''), command: String(h['command'] ?? ''), idle: Number(h['idle_time_limit'] ?? 0) || 0 };
  }

  /** The time of the last event. */
  get end(): number { return this.at; }

  /** How many events have happened at a time. */
  count(at: number): number {
    let lo = 0;
    let hi = this.events.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (this.events[mid]!.at <= at) lo = mid + 1;
      else hi = mid;
    }
    return lo;
  }

  /** Where the clock goes in a while of playing: longer pauses than idle (0: none) are cut short. */
  advance(at: number, by: number, idle: number): number {
    while (by > 0) {
      const n = this.count(at);
      const next = this.events[n]?.at;
      if (next === undefined) break;
      const before = n > 0 ? this.events[n - 1]!.at : 0;
      const leap = idle > 0 && next - before > idle ? before + idle : Infinity; // from here to the next event at once
      const step = Math.min(by, Math.max(0, Math.min(next, leap) - at));
      at += step;
      by -= step;
      if (at >= leap || at >= next) at = next;
    }
    return Math.min(at, this.end);
  }
}

/** A size such as 80x24, or undefined. */
export function sizeOf(data: string): { cols: number; rows: number } | undefined {
  const m = /^(\d{1,4})x(\d{1,4})$/.exec(data);
  if (!m || m[1] === '0' || m[2] === '0') return undefined;
  return { cols: Math.min(1000, Math.max(2, Number(m[1]))), rows: Math.min(1000, Number(m[2])) };
}

/** Seconds as minutes and seconds; with tenths in a recording that is shorter than a minute. */
export function clock(s: number, of: number): string {
  const two = (n: number) => String(Math.floor(n)).padStart(2, '0');
  if (of < 60) return `0:${two(s)}.${Math.floor(s * 10) % 10}`;
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : `${Math.floor(s / 3600)}:${two((s / 60) % 60)}:${two(s % 60)}`;
}
