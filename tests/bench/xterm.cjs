// xterm.js for the part "terminals": a line of JSON on stdin asks for one measurement,
// a line on stdout answers. All terminals are 80x24 with 10,000 lines of scrollback.
//
//   {"file", "passes"}   write the file so often, into one terminal per file: {"seconds", "cpu"}
//   {"memory": file}     heap of a new terminal that the file was written to: {"bytes"}

const fs = require('fs');
const readline = require('readline');
const { Terminal } = require('@xterm/headless');
const { Unicode11Addon } = require('@xterm/addon-unicode11');

const PIECE = 32 << 10;

function open() {
  const term = new Terminal({ cols: 80, rows: 24, scrollback: 10000, allowProposedApi: true, logLevel: 'off' });
  term.loadAddon(new Unicode11Addon());
  term.unicode.activeVersion = '11';
  return term;
}

// write resolves when xterm.js says of the last piece that it is on the screen.
function write(term, bytes) {
  return new Promise((done) => {
    for (let at = 0; at < bytes.length; at += PIECE) {
      term.write(bytes.subarray(at, at + PIECE), at + PIECE >= bytes.length ? done : undefined);
    }
  });
}

const terminals = new Map();

async function speed({ file, passes }) {
  if (!terminals.has(file)) terminals.set(file, { term: open(), bytes: fs.readFileSync(file) });
  const { term, bytes } = terminals.get(file);
  const cpu = process.cpuUsage();
  const began = process.hrtime.bigint();
  for (let i = 0; i < passes; i++) await write(term, bytes);
  const seconds = Number(process.hrtime.bigint() - began) / 1e9;
  const used = process.cpuUsage(cpu);
  return { seconds, cpu: (used.user + used.system) / 1e6 };
}

const kept = []; // nothing is collected while something is measured

async function memory({ memory: file }) {
  const heap = () => {
    gc();
    gc();
    const m = process.memoryUsage();
    return m.heapUsed + m.external;
  };
  const bytes = fs.readFileSync(file);
  const before = heap();
  const term = open();
  kept.push(term, bytes);
  await write(term, bytes);
  return { bytes: heap() - before };
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    console.log(JSON.stringify(asked.memory ? await memory(asked) : await speed(asked)));
  }
})();
