import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { browser, cutter, Daemon, missing, page, until } from './harness.mjs';

let d, b;
before(async () => {
  if (missing) return;
  process.env.TRL_OUTPUT_BYTES = process.env.TRL_SESSION_OUTPUT_BYTES = '256MiB';
  d = await Daemon.start();
  d.trl('new', 'w', '--shell', 'bash');
  b = await browser();
});
after(async () => {
  await b?.close();
  await d?.stop();
});

const rows = (p) => p.$$eval('.lines .row', (l) => l.map((e) => e.textContent));
const shows = (p, text) => until(`a line ${text}`, async () => (await rows(p)).includes(text));
const start = (command, more = {}) => d.call('exec.start', { session_id: 'w', command, wait: true, ...more }).exec_id;

async function log(id, options) {
  const p = await page(b, d, options);
  await p.goto(`${options?.base ?? d.base}/#/x/${id}`);
  await p.waitForSelector('.log');
  return p;
}

test('a command is run in the page, and its output followed to the end', { skip: missing }, async () => {
  const p = await page(b, d, { to: 'w' });
  const flag = join(d.dir, 'flag');
  await p.fill('[aria-label="Run a command"]', `printf "\\033[32mgreen\\033[0m\\n"; until [ -e ${flag} ]; do sleep 0.05; done; echo done`);
  await p.keyboard.press('Enter');
  await shows(p, 'green');
  await until('the text has its colour', async () => (await p.$eval('.lines .row span', (e) => e.textContent)) === 'green');
  assert.equal((await rows(p)).includes('done'), false);
  writeFileSync(flag, '');
  await shows(p, 'done');
  await until('it has ended', async () => /exit status 0/.test(await p.textContent('.head')));
  assert.deepEqual(p.faults, []);
  assert.deepEqual(await p.evaluate(() => window.violations), []);
  await p.context().close();
});

test('200 MB of output: end, top, search in the middle, context, download', { skip: missing }, async () => {
  const command = 'seq -f %0199.0f 1 1000000'; // lines of 200 bytes
  const id = d.call('exec.run', { session_id: 'w', command, max_output_bytes: 10 }).exec_id;
  assert.equal(d.call('exec.info', { exec_id: id }).stdout_bytes, 200_000_000);
  const p = await page(b, d);
  let received = 0;
  p.on('websocket', (ws) => ws.on('framereceived', (f) => (received += f.payload.length)));
  await p.goto(`${d.base}/#/x/${id}`);
  await p.reload();
  const numbers = async () => (await rows(p)).map(Number);
  const seen = (n) => until(`line ${n}`, async () => (await numbers()).includes(n));
  await seen(1_000_000);
  assert.ok((await rows(p)).length < 200);
  await p.click('button:text-is("Top")');
  await seen(1);
  await p.fill('input.filter', '57{5}$');
  await p.keyboard.press('Enter');
  await until('it is found', async () => (await p.$$eval('.hit', (l) => l.map((e) => Number(e.textContent)))).join() === '577777');
  await p.click('.hit');
  await p.waitForSelector('.row.marked');
  await until('the line is marked', async () => Number(await p.textContent('.row.marked')) === 577777);
  const near = await numbers();
  assert.ok(near.includes(577776) && near.includes(577778));
  // Scrolling up from there reads what is missing.
  await p.evaluate(() => { document.querySelector('.lines').scrollTop = 0; });
  await until('older lines are read', async () => (await numbers()).some((x) => x < 577200));
  assert.ok(received < 4_000_000, `${received} bytes were transferred`);
  const [got] = await Promise.all([p.waitForEvent('download'), p.click('text=Download')]);
  const digest = (what) => execFileSync('sh', ['-c', `${what} | sha256sum`], { encoding: 'utf8' });
  assert.equal(digest(`cat '${await got.path()}'`), digest(command));
  assert.deepEqual(p.faults, []);
  await p.context().close();
});

test('stderr has its own view; an empty stream says so', { skip: missing }, async () => {
  const id = d.call('exec.run', { session_id: 'w', command: 'echo oops >&2; exit 3' }).exec_id;
  const p = await log(id);
  await p.waitForSelector('text=The command wrote nothing to stdout.');
  await p.click('button:has-text("stderr")');
  await shows(p, 'oops');
  await until('the status is there', async () => /exit status 3/.test(await p.textContent('.head')));
  await p.context().close();
});

test('stdin is written, and a command cancelled', { skip: missing }, async () => {
  const id = start('while read x; do echo "got $x"; done; echo end; sleep 1000', { stdin_open: true });
  const p = await log(id);
  await p.fill('[aria-label="A line for the command\'s input"]', 'hello');
  await p.keyboard.press('Enter');
  await shows(p, 'got hello');
  await p.click('text=Close input');
  await shows(p, 'end');
  await p.click('button:text-is("Cancel")');
  await until('it is cancelled', async () => /cancelled/.test(await p.textContent('.head')));
  await p.context().close();
});

test('a followed output goes on after a lost connection, without a gap or a double', { skip: missing }, async () => {
  const id = start('for i in $(seq 1 2000); do echo "n$i"; [ $((i % 100)) = 0 ] && sleep 0.1; done; echo over');
  const between = await cutter(d);
  const p = await log(id, { base: between.base });
  await until('it follows', async () => (await rows(p)).length > 0);
  for (let i = 0; i < 3; i++) {
    between.cut();
    await p.waitForSelector('.net.online');
  }
  await shows(p, 'over');
  await p.click('button:text-is("Top")');
  await shows(p, 'n1');
  const seen = new Set();
  for (let top = 0; !seen.has('over'); top += 300) {
    await p.evaluate((t) => { document.querySelector('.lines').scrollTop = t; }, top);
    await until('the rows in sight are there', () => p.evaluate(() => {
      const box = document.querySelector('.lines');
      const tops = [...box.querySelectorAll('.row')].map((r) => parseInt(r.style.top));
      return Math.min(...tops) <= box.scrollTop && Math.max(...tops) + 20 >= Math.min(box.scrollTop + box.clientHeight, box.querySelector('.rows').clientHeight);
    }));
    for (const r of await rows(p)) seen.add(r);
    if (top > 100_000) break;
  }
  for (let i = 1; i <= 2000; i++) assert.ok(seen.has(`n${i}`), `n${i}`);
  between.close();
  await p.context().close();
});

// The last one: its daemon keeps little.
test('output that is not kept is a gap', { skip: missing }, async () => {
  await d.kill();
  d.env.TRL_OUTPUT_BYTES = '64KiB';
  await d.run();
  const id = d.call('exec.run', { session_id: d.call('session.create', { shell: '/bin/sh' }).session_id, command: 'seq -f %099.0f 1 50000', max_output_bytes: 10 }).exec_id;
  const gap = d.call('exec.output', { exec_id: id, offset: 0, limit: 1 << 20 }).next_gap;
  const p = await log(id);
  const last = async (n) => until(`line ${n}`, async () => (await rows(p)).some((r) => Number(r) === n));
  await last(50_000);
  await p.click('button:text-is("Top")');
  await last(1);
  await p.evaluate(() => { const box = document.querySelector('.lines'); box.scrollTop = box.scrollHeight; });
  await until('the gap is shown', async () => (await p.textContent('.lines')).includes(`${((gap.to - gap.from) / 1e6).toFixed(1)} MB not kept`));
  assert.deepEqual(p.faults, []);
  await p.context().close();
});

test('a command that was started in the page reads what is sent to it', { skip: missing }, async () => {
  const id = d.call('session.create', { name: 'asks', shell: '/bin/sh' }).session_id;
  const p = await page(b, d, { to: 'asks' });
  await p.check('label:has-text("with input") input');
  await p.fill('[aria-label="Run a command"]', 'while read -r x; do echo "got $x"; done; echo over');
  await p.keyboard.press('Enter');
  await p.fill('[aria-label="A line for the command\'s input"]', 'a line');
  await p.keyboard.press('Enter');
  await p.waitForSelector('.lines .row:has-text("got a line")');
  await p.click('text=Close input');
  await p.waitForSelector('.lines .row:has-text("over")');
  assert.deepEqual(p.faults, []);
  await p.context().close();
  d.call('session.destroy', { session_id: id, force: true });
});
