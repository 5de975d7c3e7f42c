// Records what xterm.js sends for every key of a US keyboard with every combination of modifiers, and for pasting:
//
//   npm ci && node record.cjs
//
// writes ../../../internal/terminal/vt/testdata/keys.jsonl.gz. xterm.js runs in a page without a browser; events are what a browser makes of keys.

const fs = require('fs');
const path = require('path');
const zlib = require('zlib');
const { JSDOM } = require('jsdom');

const { window } = new JSDOM('<!doctype html><div id="terminal"></div>', { pretendToBeVisual: true, url: 'http://localhost/' });
for (const name of ['document', 'navigator', 'Event', 'KeyboardEvent', 'HTMLElement', 'getComputedStyle', 'MutationObserver']) {
  Object.defineProperty(globalThis, name, { value: window[name], configurable: true, writable: true });
}
Object.assign(globalThis, { window, self: globalThis, requestAnimationFrame: window.requestAnimationFrame.bind(window) });
window.matchMedia = () => ({ matches: false, addEventListener() {}, removeEventListener() {}, addListener() {}, removeListener() {} });
const context = new Proxy({}, {
  get: (_, name) => ({ measureText: () => ({ width: 8, fontBoundingBoxAscent: 10, fontBoundingBoxDescent: 3 }), getImageData: () => ({ data: [0, 0, 0, 255] }) })[name] || (() => ({ addColorStop() {} })),
});
window.HTMLCanvasElement.prototype.getContext = () => context;

const { Terminal } = require('@xterm/xterm');

const terminal = new Terminal({ allowProposedApi: true });
let sent = '';
terminal.onData((data) => { sent += data; });
terminal.open(window.document.getElementById('terminal'));

function press(key, keyCode, code, mods) {
  sent = '';
  const common = { key, code, ctrlKey: !!mods.ctrl, altKey: !!mods.alt, shiftKey: !!mods.shift, metaKey: !!mods.super, bubbles: true, cancelable: true };
  const down = new window.KeyboardEvent('keydown', { ...common, keyCode, which: keyCode });
  terminal.textarea.dispatchEvent(down);
  if (!down.defaultPrevented && key.length === 1) {
    const charCode = key.codePointAt(0);
    terminal.textarea.dispatchEvent(new window.KeyboardEvent('keypress', { ...common, keyCode: 0, charCode, which: charCode }));
  }
  return sent;
}

// The keys: name, what the browser calls it without and with shift, its codes.
const keys = [
  ['enter', 'Enter', 13], ['tab', 'Tab', 9], ['esc', 'Escape', 27], ['backspace', 'Backspace', 8], ['delete', 'Delete', 46], ['insert', 'Insert', 45],
  ['home', 'Home', 36], ['end', 'End', 35], ['pageup', 'PageUp', 33], ['pagedown', 'PageDown', 34],
  ['up', 'ArrowUp', 38], ['down', 'ArrowDown', 40], ['left', 'ArrowLeft', 37], ['right', 'ArrowRight', 39],
].map(([name, key, keyCode]) => ({ name, key, shifted: key, keyCode, code: key }));
keys.push({ name: 'space', key: ' ', shifted: ' ', keyCode: 32, code: 'Space' });
for (let n = 1; n <= 12; n++) keys.push({ name: 'f' + n, key: 'F' + n, shifted: 'F' + n, keyCode: 111 + n, code: 'F' + n });
for (const c of 'abcdefghijklmnopqrstuvwxyz') keys.push({ name: c, key: c, shifted: c.toUpperCase(), keyCode: c.toUpperCase().charCodeAt(0), code: 'Key' + c.toUpperCase() });
[...'0123456789'].forEach((c, i) => keys.push({ name: c, key: c, shifted: ')!@#$%^&*('[i], keyCode: c.charCodeAt(0), code: 'Digit' + c }));
[
  ['`', '~', 192, 'Backquote'], ['-', '_', 189, 'Minus'], ['=', '+', 187, 'Equal'], ['[', '{', 219, 'BracketLeft'], [']', '}', 221, 'BracketRight'], ['\\', '|', 220, 'Backslash'],
  [';', ':', 186, 'Semicolon'], ["'", '"', 222, 'Quote'], [',', '<', 188, 'Comma'], ['.', '>', 190, 'Period'], ['/', '?', 191, 'Slash'],
].forEach(([key, shifted, keyCode, code]) => keys.push({ name: key, key, shifted, keyCode, code }));

const write = (data) => new Promise((resolve) => { terminal.write(data, resolve); });

(async () => {
  const out = [];
  for (const mode of ['', '\x1b[?1h', '\x1b[?66h']) {
    terminal.reset();
    await write(mode);
    for (const k of keys) {
      for (let bits = 0; bits < 16; bits++) {
        const mods = { shift: bits & 1, alt: bits & 2, ctrl: bits & 4, super: bits & 8 };
        if (mods.super && k.key.length === 1) continue; // those are the system's
        const name = Object.keys(mods).filter((m) => mods[m]).map((m) => m + '-').join('') + k.name;
        const bytes = press(mods.shift ? k.shifted : k.key, k.keyCode, k.code, mods);
        if (bytes) out.push({ mode, key: name, sent: bytes });
      }
    }
  }
  for (const mode of ['', '\x1b[?2004h']) {
    terminal.reset();
    await write(mode);
    for (const paste of ['one line', 'a\nb\r\nc\rd\n', '日本 ✳\t']) {
      sent = '';
      terminal.paste(paste);
      out.push({ mode, paste, sent });
    }
  }
  const text = out.map((o) => JSON.stringify(o)).join('\n') + '\n';
  fs.writeFileSync(path.join(__dirname, '../../../internal/terminal/vt/testdata/keys.jsonl.gz'), zlib.gzipSync(text, { level: 9 }));
  console.log(`${out.length} keys`);
  process.exit(0);
})();
