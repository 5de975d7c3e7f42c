// Builds the page into dist, or into the directory that is the first argument. The names of the files
// are stable and the bytes depend on nothing but the sources and the lock file, so that a test can
// compare them. The build fails when the page becomes larger than it may be.
import { build } from 'esbuild';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, 'dist');
const limits = { page: 150 << 10, terminal: 300 << 10 }; // gzipped, before and after a terminal opens

const shared = ['preact', 'preact/hooks', 'preact/jsx-runtime', '@preact/signals'];
const vendor = {
  name: 'vendor', // the libraries are a file of their own, which changes seldom
  setup(b) {
    b.onResolve({ filter: /^(@?preact)/ }, (a) => (shared.includes(a.path) ? { path: './vendor.js', external: true } : undefined));
  },
};
const common = {
  absWorkingDir: here, bundle: true, format: 'esm', target: 'es2022', minify: true, charset: 'utf8', legalComments: 'none',
  write: true, logLevel: 'warning', jsx: 'automatic', jsxImportSource: 'preact',
};

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await build({ ...common, entryPoints: ['src/vendor.ts'], outfile: join(out, 'vendor.js') });
await build({ ...common, entryPoints: ['src/app.tsx'], outfile: join(out, 'app.js'), plugins: [vendor], external: ['./term.js'] });
await build({ ...common, entryPoints: ['src/term/term.ts'], outfile: join(out, 'term.js') });
await build({ ...common, entryPoints: ['src/style.css'], outfile: join(out, 'app.css') });
for (const name of ['index.html', 'icon.svg', 'manifest.webmanifest']) writeFileSync(join(out, name), readFileSync(join(here, 'src', name)));

// The licences of everything that is in the files.
const packages = Object.keys(JSON.parse(readFileSync(join(here, 'package.json'), 'utf8')).devDependencies)
  .filter((n) => n.startsWith('@xterm/') || n.includes('preact') || n === 'marked').concat('@preact/signals-core').sort();
const licences = packages.map((name) => {
  const dir = join(here, 'node_modules', name);
  const file = readdirSync(dir).find((f) => /^licen[cs]e/i.test(f));
  const { version, license } = JSON.parse(readFileSync(join(dir, 'package.json'), 'utf8'));
  return `${name} ${version} (${license})\n\n${file ? readFileSync(join(dir, file), 'utf8').trim() : ''}\n`;
});
writeFileSync(join(out, 'licenses.txt'), licences.join('\n' + '-'.repeat(70) + '\n\n'));

// The page branches on the names of events; a build that lost one would show old states for ever.
const app = readFileSync(join(out, 'app.js'), 'utf8');
for (const name of ['session.created', 'session.running', 'session.idle', 'session.terminated', 'session.unreachable', 'session.reachable', 'exec.exited',
  'dialogue.request_opened', 'dialogue.request_closed', 'dialogue.ended', 'dialogue.removed']) {
  if (!app.includes(`"${name}"`)) throw new Error(`${name}: is not in app.js`);
}

const size = (...names) => names.reduce((n, name) => n + gzipSync(readFileSync(join(out, name)), { level: 9 }).length, 0);
const page = size('index.html', 'vendor.js', 'app.js', 'app.css', 'icon.svg');
const terminal = page + size('term.js');
const kb = (n) => (n / 1024).toFixed(1) + ' KB';
console.log(`gzipped: page ${kb(page)} of ${kb(limits.page)}, with a terminal ${kb(terminal)} of ${kb(limits.terminal)}`);
if (page > limits.page || terminal > limits.terminal) throw new Error('the page is larger than it may be');
