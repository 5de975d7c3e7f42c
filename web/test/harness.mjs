// A daemon of its own for each test file, and Chromium. Where Chromium is missing, the tests say so.
import { spawn, execFileSync } from 'node:child_process';
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

export const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
export const trl = process.env.TRL_TEST_BIN ?? join(root, 'bin', 'trl');
const browserPath = process.env.TRL_TEST_CHROMIUM ?? '/usr/bin/chromium';

/** Why tests with a daemon cannot run here, or false. */
export const unbuilt = !existsSync(trl) ? `${trl} is not built` : false;
/** Why tests with a browser cannot run here, or false. */
export const missing = !existsSync(browserPath) ? `${browserPath} is not here` : unbuilt;
if (missing) console.log(`SKIPPED: ${missing}: the tests of the page do not run`);

/** Waits until f returns something true. It waits for the thing itself, and gives up after a minute. */
export async function until(what, f, ms = 60_000) {
  const end = Date.now() + ms;
  let last;
  for (;;) {
    try {
      const v = await f();
      if (v) return v;
      last = undefined;
    } catch (e) {
      last = e;
    }
    if (Date.now() > end) throw new Error(`${what}: did not happen${last ? `: ${last.message}` : ''}`);
    await new Promise((r) => setTimeout(r, 30));
  }
}

export function freePort() {
  return new Promise((resolve) => {
    const s = createServer();
    s.listen(0, '127.0.0.1', () => {
      const { port } = s.address();
      s.close(() => resolve(port));
    });
  });
}

/** What the policy of the page refused, in all pages of this file. */
const violations = [];

export class Daemon {
  constructor(dir, port) {
    this.dir = dir;
    this.port = port;
    this.base = `http://127.0.0.1:${port}`;
    const env = { ...process.env, TRL_SOCKET_PATH: join(dir, 's'), TRL_STATE_DIR: join(dir, 'state'), TRL_RUNTIME_DIR: join(dir, 'run'), TRL_CONFIG: join(dir, 'none.toml'), HOME: dir, PS1: '$ ' };
    writeFileSync(env.TRL_CONFIG, ''); // not the one of the person who tests
    delete env.DISPLAY;
    delete env.TRL_AUTH_TOKEN;
    this.env = env;
  }

  static async start(...more) {
    const d = new Daemon(mkdtempSync(join(tmpdir(), 'trlw-')), await freePort());
    d.more = more;
    d.guard();
    await d.run();
    return d;
  }

  /**
   * Starts a process that ends the daemon and its sessions when this process closes its end of a pipe,
   * or has gone, however that happened. A daemon that was killed is started again, to end its sessions.
   */
  guard() {
    const script = 'cat >/dev/null; "$1" serve --background; "$1" stop; rm -rf "$2"';
    this.guarded = spawn('sh', ['-c', script, 'sh', trl, this.dir], { env: this.env, cwd: '/', detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
    this.cleaned = new Promise((r) => this.guarded.on('exit', r));
    this.guarded.unref();
    this.guarded.stdin.unref();
  }

  async run() {
    // The log is a file: a pipe would end the daemon together with this process, before the guard can.
    const log = openSync(join(this.dir, 'log'), 'a');
    this.process = spawn(trl, ['serve', '--http', `127.0.0.1:${this.port}`, ...this.more], { env: this.env, stdio: ['ignore', 'ignore', log] });
    closeSync(log);
    this.gone = new Promise((r) => this.process.on('exit', r));
    await until('the daemon serves', async () => {
      if (this.process.exitCode !== null) throw new Error(`it has ended: ${this.log}`);
      return (await fetch(this.base + '/readyz')).ok;
    });
  }

  async kill() {
    this.process.kill('SIGKILL');
    await this.gone;
  }

  get log() { return readFileSync(join(this.dir, 'log'), 'utf8'); }
  trl(...args) { return execFileSync(trl, args, { env: this.env, cwd: this.dir, encoding: 'utf8', timeout: 120_000, stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 64 << 20 }); }
  json(...args) { return JSON.parse(this.trl(...args)); }
  call(method, params = {}) { return this.json('call', method, JSON.stringify(params)); }
  /** The same over HTTP, for parameters that are too long for a command line. */
  async post(method, params) {
    const r = await fetch(`${this.base}/v1/${method}`, { method: 'POST', headers: { Authorization: `Bearer ${this.token()}`, 'Content-Type': 'application/json' }, body: JSON.stringify(params) });
    const answer = await r.json();
    if (!r.ok) throw new Error(answer.error.message);
    return answer;
  }
  spawn(...args) { return spawn(trl, args, { env: this.env, cwd: this.dir, stdio: ['pipe', 'pipe', 'pipe'] }); }
  open(...args) { return this.trl('open', '--print', ...args).trim(); }
  token() { return readFileSync(join(this.dir, 'state', 'token'), 'utf8').trim(); }

  async stop() {
    this.guarded.ref();
    this.guarded.stdin.end();
    await this.cleaned;
    if (violations.length > 0) throw new Error(`the policy of the page was violated:\n${violations.join('\n')}`);
  }
}

let agent;
/** Builds the program that stands for a coding agent, once. */
export function fakeAgent() {
  if (!agent) {
    agent = join(root, 'build', 'fakeagent-web'); // sdk/test.sh, which may run beside, has one of its own
    execFileSync('go', ['build', '-trimpath', '-o', agent, './tests/dialogue/fakeagent'], { cwd: root, stdio: 'inherit', env: { ...process.env, CGO_ENABLED: '0' } });
  }
  return agent;
}

/** A line of Claude Code, for the command raw of the agent. */
export const line = (o) => 'raw ' + JSON.stringify({ uuid: crypto.randomUUID(), ...o }).replaceAll(';', '\\u003b');
let made = 0;
/** The line that starts a tool, also below another call, and its id. */
export function use(name, input, { parent = null, id = `toolu_${++made}` } = {}) {
  return { id, line: line({ type: 'assistant', parent_tool_use_id: parent, message: { id: `msg_${++made}`, role: 'assistant', model: 'm', content: [{ type: 'tool_use', id, name, input }] } }) };
}
export const says = (text, parent = null) => line({ type: 'assistant', parent_tool_use_id: parent, message: { id: `msg_${++made}`, role: 'assistant', model: 'm', content: [{ type: 'text', text }] } });
export const gives = (id, content, { parent = null, failed = false } = {}) => line({ type: 'user', parent_tool_use_id: parent, message: { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content, is_error: failed }] } });

export async function browser(...more) {
  return chromium.launch({ executablePath: browserPath, args: [...(process.getuid?.() === 0 ? ['--no-sandbox'] : []), ...more], timeout: 120_000 });
}

/** Makes a page believe that it is hidden, or seen again. */
export function hide(p, yes) {
  return p.evaluate((h) => { Object.defineProperty(document, 'hidden', { value: h, configurable: true }); document.dispatchEvent(new Event('visibilitychange')); }, yes);
}

/** Stands between the browser and the daemon, and cuts all connections when it is told to. */
export async function cutter(d) {
  const open = new Set();
  const server = createServer((a) => {
    const z = connect(d.port, '127.0.0.1');
    for (const [x, y] of [[a, z], [z, a]]) {
      open.add(x);
      x.pipe(y);
      x.on('error', () => y.destroy());
      x.on('close', () => { open.delete(x); y.destroy(); });
    }
  });
  await new Promise((r) => server.listen(0, '127.0.0.1', r));
  const cut = () => { for (const s of open) s.destroy(); };
  return { base: `http://127.0.0.1:${server.address().port}`, cut, close: () => { server.close(); cut(); } };
}

/** Opens a page of the daemon, logged in by trl open or by the address of a share, and notes what its policy refuses and what fails. */
export async function page(b, d, { to, url, context, base = d.base, ...options } = {}) {
  const c = context ?? (await b.newContext({ viewport: { width: 1280, height: 800 }, ...options }));
  c.setDefaultTimeout(60_000);
  // For work on the page: its files as they are in web/dist, without a new bin/trl.
  if (process.env.TRL_TEST_DIST) await c.route(/\/assets\//, (r) => r.fulfill({ path: join(root, 'web', 'dist', r.request().url().split('/').pop()) }));
  const p = await c.newPage();
  p.faults = [];
  p.on('pageerror', (e) => p.faults.push(String(e)));
  p.on('crash', () => p.faults.push('the page crashed'));
  p.on('console', (m) => { if (m.type() === 'error' && !/WebSocket|ERR_CONNECTION|Failed to load resource/.test(m.text())) p.faults.push(m.text()); });
  await p.exposeFunction('violation', (v) => violations.push(v));
  p.foreign = [];
  p.on('request', (r) => { if (!r.url().startsWith(base) && !/^(data|blob):/.test(r.url())) p.foreign.push(r.url()); });
  await c.addInitScript(() => {
    window.violations = [];
    document.addEventListener('securitypolicyviolation', (e) => {
      const v = `${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}`;
      window.violations.push(v);
      window.violation?.(v);
    });
  });
  await p.goto((url ?? d.open(...(to ? [to] : []))).replace(d.base, base));
  await p.waitForSelector('header.top');
  return p;
}

/** Composes a text in the field that has the focus, as an input method does, and commits it. */
export async function compose(p, steps, text) {
  const c = await p.context().newCDPSession(p);
  for (const t of steps) await c.send('Input.imeSetComposition', { text: t, selectionStart: t.length, selectionEnd: t.length });
  await c.send('Input.insertText', { text });
  await c.detach();
}

/** The screen of the terminal in a page: rows without trailing blanks, and the cursor. */
export function screen(p) {
  return p.evaluate(() => {
    const s = document.querySelector('.screen')?.trlScreen;
    return s && s.pending === 0 ? s.rows() : null;
  });
}

/** The same of the daemon. */
export function truth(d, id) {
  const s = d.call('session.screen', { session_id: id });
  const rows = (s.text ?? '').split('\n').slice(0, s.rows).map((r) => r.trimEnd());
  while (rows.length < s.rows) rows.push('');
  return { rows, x: s.cursor.x, y: s.cursor.y };
}

export async function sameScreen(p, d, id) {
  await until('the page shows what the daemon shows', async () => JSON.stringify(await screen(p)) === JSON.stringify(truth(d, id)));
}
