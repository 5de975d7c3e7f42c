// The health page, and what the daemon says by itself: a changed session, the end of a share.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { browser, Daemon, fakeAgent, hide, missing, page, until } from './harness.mjs';

let d, b, asked;
before(async () => {
  if (missing) return;
  d = await Daemon.start();
  await d.kill();
  // Both values hold what must not be shown.
  asked = join(d.dir, 'asked');
  writeFileSync(d.env.TRL_CONFIG, `max_sessions = 77\non_request_url = "https://hooks.example/services/sesame?key=sesame"\non_request_command = "cat >>${asked}"\non_request_after_s = 1\n`);
  await d.run();
  b = await browser();
});
after(async () => {
  await b?.close();
  await d?.stop();
});

test('the health page shows settings, limits, what the doctor finds and the log', { skip: missing }, async () => {
  const p = await page(b, d);
  const frames = [];
  p.on('websocket', (ws) => ws.on('framereceived', (f) => frames.push(String(f.payload))));
  await p.reload();
  await p.goto(d.base + '/#/daemon');
  const row = (key) => p.textContent(`.settings-list tr[data-key="${key}"]`);
  await p.waitForSelector('.settings-list tr[data-key=max_sessions]');
  assert.match(await row('max_sessions'), /77.*none\.toml/);
  assert.match(await row('on_request_url'), /https:\/\/hooks\.example\/…/);
  assert.equal(await p.$('.settings-list tr[data-key=kill_grace_s]'), null, 'a default is listed');
  await p.click('.settings-list button');
  assert.match(await row('kill_grace_s'), /default/);
  await p.click('summary:text-is("Limits")');
  assert.match(await p.textContent('details .facts'), /max_sessions77/);
  await p.waitForSelector('.stat:has-text("Disk")'); // measured later than the rest
  assert.match(await p.textContent('.cards'), /Connections\d+.*websocket.*Disk/);

  // The log goes on by itself, and begins with what was there.
  await p.waitForSelector('.log-line:has-text("daemon started")');
  const { session_id } = d.call('session.create', { name: 'logged', shell: 'none' });
  await p.waitForSelector(`.log-line:has-text("${session_id}")`);
  await p.selectOption('.daemon-log select', 'error');
  await p.waitForSelector('text=No records at this level');
  await p.selectOption('.daemon-log select', 'info');
  await p.waitForSelector('.log-line:has-text("daemon started")');

  // The doctor finds the same as that of the command line, which asks the daemon, too.
  await p.click('button:text-is("Check now")');
  await p.waitForSelector('.doctor tr[data-verdict=ok]:has-text("Shells")');
  const shown = await p.$$eval('.doctor tbody tr', (l) => l.map((r) => r.children[1].textContent + '/' + r.children[2].textContent));
  const cli = d.json('doctor', '--json').findings.map((f) => `${f.section}/${f.name}`);
  assert.deepEqual(shown.filter((x) => !cli.includes(x)), []);
  assert.ok(shown.includes('Places/state') && shown.includes('Shells/sh'), shown.join());
  assert.deepEqual(d.call('session.list').sessions.map((s) => s.name), ['logged'], 'the doctor left a session behind');

  assert.deepEqual(frames.filter((f) => f.includes('sesame')), []);
  assert.deepEqual(p.faults, []);
  assert.deepEqual(await p.evaluate(() => window.violations), []);
  d.call('session.destroy', { session_id, force: true });
  await p.context().close();
});

test('a read-only page sees the settings and the log, and starts no check', { skip: missing }, async () => {
  const p = await page(b, d, { url: d.trl('open', '--print', '--read-only').trim() });
  await p.goto(d.base + '/#/daemon');
  await p.waitForSelector('.settings-list tr[data-key=max_sessions]');
  await p.waitForSelector('.log-line');
  await p.waitForSelector('text=This login is read-only');
  assert.equal(await p.$('button:text-is("Check now")'), null);
  assert.deepEqual(p.faults, []);
  await p.context().close();
});

test('a session that is renamed or tagged elsewhere changes in the list by itself', { skip: missing }, async () => {
  d.call('session.create', { name: 'before', shell: 'none' });
  const p = await page(b, d);
  let calls = [];
  p.on('websocket', (ws) => {
    const mine = (calls = []);
    ws.on('framesent', (f) => mine.push(JSON.parse(f.payload).method));
  });
  await p.reload();
  const shows = (text) => p.waitForSelector(`[role=grid] .rows [role=row]:has-text("${text}")`);
  await shows('before');
  const lists = () => calls.filter((m) => m === 'session.list').length;
  const asked = lists();
  d.trl('rename', 'before', 'renamed-elsewhere');
  await shows('renamed-elsewhere');
  d.call('session.set', { session_id: 'renamed-elsewhere', tags: ['fresh-tag'] });
  await shows('fresh-tag');
  assert.equal(lists(), asked, 'the page asked for the list again');
  assert.deepEqual(p.faults, []);
  d.call('session.destroy', { session_id: 'renamed-elsewhere', force: true });
  await p.context().close();
});

test('the end of a share has a close code of its own, and the page asks for a new link', { skip: missing }, async () => {
  const { session_id } = d.call('session.create', { name: 'watched', shell: 'none' });
  const share = d.json('share', 'watched', '--json');
  const context = await b.newContext();
  await context.addInitScript(() => {
    window.codes = [];
    const Real = WebSocket;
    window.WebSocket = class extends Real {
      constructor(...args) {
        super(...args);
        this.addEventListener('close', (e) => window.codes.push(e.code));
      }
    };
  });
  const p = await page(b, d, { context, url: share.url });
  await p.waitForSelector('h1:text("watched")');
  const owner = await page(b, d);
  d.trl('web', 'revoke', share.share_id);
  await p.waitForSelector('h1:text("This share has ended")');
  await until('the socket was closed', async () => (await p.evaluate(() => window.codes)).length > 0);
  assert.deepEqual([...new Set(await p.evaluate(() => window.codes))], [4403]);
  await owner.waitForSelector('text=watched');
  assert.equal(await owner.$('.login'), null, 'the owner was logged out, too');
  for (const one of [p, owner]) await one.context().close();
  d.call('session.destroy', { session_id, force: true });
});

test('a queued message is taken back, and the agent never gets it', { skip: missing }, async () => {
  const id = d.call('dialogue.create', { agent: 'claude', name: 'taken', argv: [fakeAgent()], working_dir: d.dir, prompt: 'hang' }).dialogue_id;
  const p = await page(b, d, { to: 'taken' });
  await p.waitForSelector('button:text-is("Interrupt")');
  await p.fill('#composer', 'say nobody hears this');
  await p.keyboard.press('Enter');
  await p.click('.item.user:has(.badge[data-message=queued]) button:text-is("Take back")');
  await p.waitForSelector('.item.user .badge:text-is("cancelled")');
  await p.click('button:text-is("Interrupt")');
  await until('the agent is idle', () => d.call('dialogue.info', { dialogue_id: id }).state === 'idle');
  const { items } = d.call('dialogue.transcript', { dialogue_id: id });
  assert.deepEqual(items.filter((i) => i.kind !== 'user' && JSON.stringify(i).includes('hears this')), []);
  assert.deepEqual(p.faults, []);
  d.call('dialogue.terminate', { dialogue_id: id, force: true });
  await p.context().close();
});

test('what is typed in a terminal has the name of the page in the audit log', { skip: missing }, async () => {
  const { session_id } = d.call('session.create', { name: 'typed', kind: 'terminal', command: ['cat'] });
  const p = await page(b, d, { to: 'typed' });
  await p.waitForSelector('.screen[data-ready=yes]');
  await p.click('.screen');
  await p.keyboard.type('x');
  const { records } = await until('it is recorded', () => {
    const r = d.call('audit.list', { session_id, method: 'session.input' });
    return r.records.length > 0 && r;
  });
  assert.deepEqual(records.filter((r) => !r.caller.label), []);
  d.call('session.destroy', { session_id, force: true });
  await p.context().close();
});

test('a request is reported while a page is open that shows it to no person', { skip: missing }, async () => {
  const p = await page(b, d);
  await p.waitForSelector('.net.online');
  await hide(p, true);
  const id = d.call('dialogue.create', { agent: 'claude', name: 'unseen', argv: [fakeAgent()], working_dir: d.dir, prompt: 'ask Bash ls' }).dialogue_id;
  await until('it is reported', () => existsSync(asked) && readFileSync(asked, 'utf8').includes(id));
  await until('the page has it, too', async () => (await p.title()).startsWith('(1)'));
  assert.deepEqual(p.faults, []);
  d.call('dialogue.terminate', { dialogue_id: id, force: true });
  await p.context().close();
});
