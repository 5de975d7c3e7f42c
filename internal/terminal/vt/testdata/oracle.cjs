// The page's terminal without a page: reads streams, one JSON object per line, and answers each with the states at its checkpoints and its end.
// usage: NODE_PATH=.../node_modules node oracle.cjs < streams > states   (needs @xterm/headless 6.0.0 and @xterm/addon-unicode11)
const {Terminal} = require('@xterm/headless');
const {Unicode11Addon} = require('@xterm/addon-unicode11');

function open(cols, rows, scrollback) {
  const t = new Terminal({cols, rows, scrollback, allowProposedApi: true, logLevel: 'off', windowOptions: {pushTitle: true, popTitle: true}});
  t.loadAddon(new Unicode11Addon());
  t.unicode.activeVersion = '11';
  t.lastTitle = '';
  t.onTitleChange(title => { t.lastTitle = title; });
  return t;
}

function color(cell, fg) {
  if (fg ? cell.isFgDefault() : cell.isBgDefault()) return '';
  const value = fg ? cell.getFgColor() : cell.getBgColor();
  return (fg ? cell.isFgRGB() : cell.isBgRGB()) ? '#' + value.toString(16).padStart(6, '0') : 'p' + value;
}

function attributes(c) {
  const flags = [[c.isBold(), 'B'], [c.isDim(), 'D'], [c.isItalic(), 'I'], [c.isUnderline(), 'U'], [c.isBlink(), 'K'], [c.isInverse(), 'R'],
    [c.isInvisible(), 'H'], [c.isStrikethrough(), 'S']];
  return color(c, true) + ',' + color(c, false) + ',' + flags.filter(f => f[0]).map(f => f[1]).join('');
}

function state(t, withScrollback) {
  const b = t.buffer.active, cell = b.getNullCell();
  const s = {cx: b.cursorX, cy: b.cursorY, alt: b.type === 'alternate', title: t.lastTitle, hidden: !!t._core.coreService.isCursorHidden,
    modes: t.modes, t: [], a: [], wr: [], sbn: t.buffer.normal.baseY};
  for (let y = 0; y < t.rows; y++) {
    const line = b.getLine(b.baseY + y), text = [], attrs = [];
    for (let x = 0; x < t.cols; x++) {
      const c = line && line.getCell(x, cell);
      text.push(!c ? ' ' : c.getWidth() === 0 ? '' : c.getChars() || ' ');
      attrs.push(c ? attributes(c) : ',,');
    }
    s.t.push(text);
    s.a.push(attrs);
    s.wr.push(!!line && line.isWrapped);
  }
  if (withScrollback) {
    s.sb = [];
    for (let y = 0; y < s.sbn; y++) s.sb.push(t.buffer.normal.getLine(y).translateToString(true).replace(/\s+$/, ''));
  }
  return s;
}

require('readline').createInterface({input: process.stdin}).on('line', line => {
  const stream = JSON.parse(line), t = open(stream.cols, stream.rows, stream.scrollback ?? 10000), states = [];
  let crashed = false;
  for (const op of stream.ops) {
    try {
      if (op.w !== undefined) t._core.writeSync(Buffer.from(op.w, 'base64'));
      else if (op.r) t.resize(op.r[0], op.r[1]);
      else states.push(state(t, op.c === 2));
    } catch (e) {
      crashed = true;
    }
  }
  states.push(state(t, true));
  t.dispose();
  process.stdout.write(JSON.stringify({name: stream.name, crashed, states}) + '\n');
});
