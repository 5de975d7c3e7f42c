// The oracle: what xterm.js shows after a stream of bytes and resizes. xterm.js
// with the Unicode 11 widths is what TRL's pages run, so it is what the model in
// internal/terminal/vt has to be equal to.
//
//   node oracle.cjs states STREAMS STATES   states at every checkpoint of the streams (.jsonl.gz)
//   node oracle.cjs answer                  a live terminal for record.py, lines of JSON on stdin and stdout
//   node oracle.cjs resume                  jobs on stdin: cut a stream, load a snapshot, go on, compare
//
// A stream is {"name","cols","rows","ops"}; an op is {"w": base64} to write,
// {"r": [cols, rows]} to resize, {"c": 1} to take a checkpoint.

const fs = require('fs');
const readline = require('readline');
const zlib = require('zlib');
const { Terminal } = require('@xterm/headless');
const { Unicode11Addon } = require('@xterm/addon-unicode11');

const SCROLLBACK = 10000;

// open returns a terminal that is written to synchronously. Like TRL's server, it
// never hands xterm.js the first part of a character: 6.0.0 loses some that are split.
function open(cols, rows) {
  const term = new Terminal({
    cols, rows, scrollback: SCROLLBACK, allowProposedApi: true, logLevel: 'off', windowOptions: { pushTitle: true, popTitle: true },
  });
  term.loadAddon(new Unicode11Addon());
  term.unicode.activeVersion = '11';
  const it = { term, core: term._core, title: '', replies: '', held: Buffer.alloc(0), crashed: '' };
  term.onTitleChange((title) => { it.title = title; });
  term.onData((data) => { it.replies += data; });
  it.write = (bytes) => {
    let all = Buffer.concat([it.held, bytes]);
    const n = unfinished(all);
    it.held = all.subarray(all.length - n);
    all = all.subarray(0, all.length - n);
    try {
      it.core.writeSync(all);
    } catch (e) {
      it.crashed = e.message;
    }
  };
  it.apply = (op) => {
    if (op.w !== undefined) it.write(Buffer.from(op.w, 'base64'));
    else if (op.r) term.resize(op.r[0], op.r[1]);
  };
  return it;
}

// unfinished is the number of bytes at the end that begin a character of UTF-8.
function unfinished(bytes) {
  for (let back = 1; back <= 3 && back <= bytes.length; back++) {
    const b = bytes[bytes.length - back];
    if (b >= 0xc0) return (b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : 2) > back ? back : 0;
    if (b < 0x80) return 0;
  }
  return 0;
}

function colour(cell, fg) {
  if (fg ? cell.isFgDefault() : cell.isBgDefault()) return '';
  const value = fg ? cell.getFgColor() : cell.getBgColor();
  return (fg ? cell.isFgRGB() : cell.isBgRGB()) ? '#' + value.toString(16).padStart(6, '0') : 'p' + value;
}

function attributes(cell) {
  const flags = (cell.isBold() ? 'B' : '') + (cell.isDim() ? 'D' : '') + (cell.isItalic() ? 'I' : '') +
    (cell.isUnderline() ? 'U' : '') + (cell.isBlink() ? 'K' : '') + (cell.isInverse() ? 'R' : '') +
    (cell.isInvisible() ? 'H' : '') + (cell.isStrikethrough() ? 'S' : '');
  return colour(cell, true) + ',' + colour(cell, false) + ',' + flags;
}

// extended is what the public interface of a cell does not tell: overline, style and
// colour of the underline, link.
function extended(it, cell) {
  const parts = [];
  if (cell.isOverline && cell.isOverline()) parts.push('O');
  if (cell.hasExtendedAttrs()) {
    const style = cell.extended._ext >>> 26 & 7; // without the line that links have anyway
    if (style > 1) parts.push('u' + style);
    const link = linkOf(it, cell.extended.urlId);
    if (cell.isUnderline() || link) {
      const c = underlineColour(cell.extended);
      const mode = c & 0x3000000;
      if (style && mode === 0x3000000) parts.push('c#' + (c & 0xffffff).toString(16).padStart(6, '0'));
      else if (style && mode) parts.push('cp' + (c & 0xff));
    }
    if (link) parts.push('l' + link);
  }
  return parts.join(' ');
}

// underlineColour is 0 for the default, also where SGR 59 left what looks like white.
function underlineColour(extended) {
  return (extended.underlineColor & 0x3ffffff) === 0x3ffffff ? 0 : extended.underlineColor;
}

function linkOf(it, id) {
  if (!id) return '';
  const data = it.core._oscLinkService.getLinkData(id);
  return data ? data.uri : '';
}

// state is what is seen, in the form of the golden files.
function state(it, withScrollback) {
  const { term } = it;
  const active = term.buffer.active;
  const out = {
    cx: active.cursorX, cy: active.cursorY, alt: active.type === 'alternate', title: it.title,
    hidden: !!it.core.coreService.isCursorHidden, modes: { ...term.modes }, t: [], a: [], e: [], wr: [],
  };
  const cell = active.getNullCell();
  for (let y = 0; y < term.rows; y++) {
    const line = active.getLine(active.baseY + y);
    const text = [];
    const attrs = [];
    for (let x = 0; x < term.cols; x++) {
      const c = line && line.getCell(x, cell);
      if (!c) {
        text.push(' ');
        attrs.push(',,');
        continue;
      }
      text.push(c.getWidth() === 0 ? '' : c.getChars() || ' ');
      attrs.push(attributes(c));
      const more = extended(it, c);
      if (more) out.e.push([y, x, more]);
    }
    out.t.push(text);
    out.a.push(attrs);
    out.wr.push(line ? line.isWrapped : false);
  }
  const normal = term.buffer.normal;
  out.sbn = normal.baseY;
  if (withScrollback) {
    out.sb = [];
    out.sbw = [];
    for (let y = 0; y < normal.baseY; y++) {
      const line = normal.getLine(y);
      out.sb.push(line.translateToString(true).replace(/\s+$/, ''));
      out.sbw.push(line.isWrapped ? 1 : 0);
    }
  }
  return out;
}

// everything is all that decides how the terminal goes on, hidden state included:
// both screens cell by cell, cursors, margins, tabs, saved cursors, modes, pen.
function everything(it) {
  const { core } = it;
  const buffers = core._bufferService.buffers;
  const charsets = core._charsetService;
  const modes = { ...core.coreService.decPrivateModes };
  return {
    size: [core._bufferService.cols, core._bufferService.rows],
    active: buffers.active === buffers.alt ? 'alt' : 'normal',
    title: it.title,
    icon: core._inputHandler._iconName,
    hidden: core.coreService.isCursorHidden,
    insert: core.coreService.modes.insertMode,
    modes,
    mouse: core.coreMouseService.activeProtocol + ' ' + core.coreMouseService.activeEncoding,
    style: core.optionsService.rawOptions.cursorStyle + ' ' + core.optionsService.rawOptions.cursorBlink,
    pen: pen(it, core._inputHandler._curAttrData),
    gl: charsets.glevel,
    charsets: [0, 1, 2, 3].map((g) => charset(charsets._charsets[g])),
    normal: buffer(it, buffers.normal),
    alt: buffers.active === buffers.alt ? buffer(it, buffers.alt) : null,
  };
}

// pen is a style: the two words of a cell, the underline, the link. Bits that mean nothing where they are become zero.
function pen(it, attr) {
  if (!attr) return '';
  const underlined = (attr.fg & 0x10000000) !== 0;
  const underline = underlineColour(attr.extended) & 0x3ffffff | (underlined ? attr.extended.underlineStyle << 26 : 0);
  return `${palette(attr.fg)},${palette(attr.bg)},${palette(underline)},${linkOf(it, attr.extended.urlId)}`;
}

// palette makes one of the two ways to say one of the first sixteen colours (SGR 31 and SGR 38;5;1) the other: they look the same.
function palette(bits) {
  switch (bits & 0x3000000) {
    case 0x3000000: return bits >>> 0;
    case 0x2000000: return ((bits & 0xff) < 16 ? bits & ~0x3ffff00 | 0x1000000 : bits & ~0xffff00) >>> 0;
    case 0x1000000: return (bits & ~0xffff00) >>> 0;
    default: return (bits & ~0xffffff) >>> 0;
  }
}

function charset(set) {
  return set ? JSON.stringify(set) : '';
}

function buffer(it, b) {
  const lines = [];
  for (let y = 0; y < b.lines.length; y++) lines.push(row(it, b.lines.get(y)));
  const active = b === it.core._bufferService.buffers.active; // the other one is given this one's cursor when it is shown
  return {
    x: active ? b.x : 0, y: active ? b.y : 0, base: b.ybase, top: b.scrollTop, bottom: b.scrollBottom,
    savedX: Math.min(b.savedX, it.term.cols - 1), savedY: Math.min(Math.max(b.savedY - b.ybase, 0), it.term.rows - 1), savedPen: pen(it, b.savedCurAttrData), savedCharset: charset(b.savedCharset),
    tabs: Object.keys(b.tabs).filter((x) => b.tabs[x]).map(Number).filter((x) => x < it.core._bufferService.cols),
    lines,
  };
}

// row is a line as text: cells with what they show, and how.
function row(it, line) {
  const cells = [];
  const cell = it.term.buffer.active.getNullCell();
  let last = null;
  for (let x = 0; x < Math.min(line.length, it.term.cols); x++) { // what a narrower screen hides is not told
    line.loadCell(x, cell);
    const style = pen(it, cell);
    if (style !== last) cells.push(`\u0001${style}\u0002`);
    last = style;
    const content = cell.content & 0x3fffff;
    cells.push(cell.getWidth() === 0 ? '\u0003' : content === 0 ? '\u0004' : cell.getChars());
  }
  return (line.isWrapped ? '+' : ' ') + cells.join('');
}

// difference is the path of the first thing that is not equal, and both values.
function difference(a, b, path = '') {
  if (a === b) return null;
  if (typeof a !== 'object' || typeof b !== 'object' || !a || !b) return `${path}: ${JSON.stringify(a)} | ${JSON.stringify(b)}`;
  for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const d = difference(a[key], b[key], `${path}.${key}`);
    if (d) return d;
  }
  return null;
}

// visible is what a person sees: the text of screen and scrollback, and the cursor.
function visible(it) {
  const b = it.term.buffer.active;
  const lines = [];
  for (let y = 0; y < b.length; y++) lines.push(b.getLine(y).translateToString(true, 0, it.term.cols).replace(/\s+$/, ''));
  return { x: b.cursorX, y: b.cursorY, type: b.type, hidden: it.core.coreService.isCursorHidden, lines };
}

function lines(file) {
  let input = file ? fs.createReadStream(file) : process.stdin;
  if (file && file.endsWith('.gz')) input = input.pipe(zlib.createGunzip());
  return readline.createInterface({ input, crlfDelay: Infinity });
}

async function states(from, to) {
  const out = [];
  for await (const line of lines(from)) {
    if (!line) continue;
    const stream = JSON.parse(line);
    const it = open(stream.cols, stream.rows);
    const taken = [];
    for (const op of stream.ops) {
      if (op.c) taken.push(state(it, op.c === 2));
      else it.apply(op);
    }
    taken.push(state(it, true));
    if (it.crashed) console.error(`${stream.name}: xterm.js: ${it.crashed}`);
    out.push(JSON.stringify({ name: stream.name, crashed: !!it.crashed, states: taken }));
    it.term.dispose();
  }
  const text = Buffer.from(out.join('\n') + '\n');
  fs.writeFileSync(to, to.endsWith('.gz') ? zlib.gzipSync(text, { level: 9 }) : text);
}

// answer keeps one terminal: an op comes in, what it replied and what it shows goes out.
async function answer() {
  let it = null;
  for await (const line of lines()) {
    const op = JSON.parse(line);
    if (op.open) it = open(op.open[0], op.open[1]);
    else it.apply(op);
    const shown = visible(it);
    const out = { reply: Buffer.from(it.replies, 'latin1').toString('base64'), screen: shown.lines.slice(-it.term.rows).join('\n'), application: it.term.modes.applicationCursorKeysMode };
    it.replies = '';
    process.stdout.write(JSON.stringify(out) + '\n');
  }
}

// resume answers jobs {name, cols, rows, ops, cuts: [{op, byte, snapshot}]}. A cut is
// after `byte` bytes of op number `op`. For each cut: the difference after loading
// the snapshot (a), after the rest of the stream (b), the same of what is visible
// (text), and what the snapshot made the terminal reply (reply).
async function resume() {
  for await (const line of lines()) {
    if (!line) continue;
    const job = JSON.parse(line);
    const whole = open(job.cols, job.rows);
    for (const op of job.ops) whole.apply(op);
    const end = { all: everything(whole), seen: visible(whole) };
    const results = job.cuts.map((cut) => {
      const before = open(job.cols, job.rows);
      for (const op of job.ops.slice(0, cut.op)) before.apply(op);
      const at = job.ops[cut.op];
      const bytes = at && at.w !== undefined ? Buffer.from(at.w, 'base64') : Buffer.alloc(0);
      before.write(bytes.subarray(0, cut.byte));
      const cols = before.term.cols;
      const rows = before.term.rows;

      const after = open(cols, rows);
      after.write(Buffer.from(cut.snapshot, 'base64'));
      const result = {
        a: difference(everything(before), everything(after)),
        reply: after.replies,
      };
      if (at && at.w !== undefined) after.write(bytes.subarray(cut.byte));
      for (const op of job.ops.slice(at && at.w !== undefined ? cut.op + 1 : cut.op)) after.apply(op);
      result.b = difference(end.all, everything(after));
      result.text = difference(end.seen, visible(after));
      result.crashed = before.crashed || whole.crashed || '';
      result.broken = result.crashed ? '' : after.crashed;
      before.term.dispose();
      after.term.dispose();
      return result;
    });
    whole.term.dispose();
    process.stdout.write(JSON.stringify({ name: job.name, results }) + '\n');
  }
}

const [command, from, to] = process.argv.slice(2);
const run = { states: () => states(from, to), answer, resume }[command];
if (!run) {
  console.error('usage: node oracle.cjs states STREAMS STATES | answer | resume');
  process.exit(2);
}
console.warn = () => {}; // writeSync says on every call that it will go away
run();
