import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { browser, Daemon, hide, missing, page, root, until } from './harness.mjs';

let d, b;
before(async () => {
  if (missing) return;
  d = await Daemon.start();
  b = await browser();
});
after(async () => {
  await b?.close();
  await d?.stop();
});

const names = (p) => p.$$eval('[role=grid] .rows [role=row] a', (l) => l.map((e) => e.textContent));
const stateOf = (p, name) => p.$eval(`[role=row]:has(a:text-is("${name}")) .state`, (e) => e.textContent.slice(2).trim());

test('an empty list teaches how to fill it', { skip: missing }, async () => {
  const p = await page(b, d);
  await p.waitForSelector('text=Nothing is running');
  await p.context().close();
});

test('sessions appear, change and end by themselves, without a list call', { skip: missing }, async () => {
  const p = await page(b, d);
  await p.waitForSelector('text=Nothing is running');
  let calls = []; // of the last connection: the page before the reload may still be about to connect
  p.on('websocket', (ws) => {
    const mine = (calls = []);
    ws.on('framesent', (f) => mine.push(JSON.parse(f.payload).method));
  });
  await p.reload();
  await p.waitForSelector('text=Nothing is running');
  const before = calls.filter((m) => m === 'session.list').length;
  assert.equal(before, 2);
  d.trl('new', 'live', '--tag', 'ci');
  await until('it appears', async () => (await names(p)).includes('live'));
  const run = d.spawn('run', '-s', 'live', 'sleep 1000');
  await until('it runs', async () => (await stateOf(p, 'live')) === 'running');
  run.kill('SIGINT');
  await until('it is idle', async () => (await stateOf(p, 'live')) === 'idle');
  d.trl('kill', 'live');
  await until('it has ended', async () => (await stateOf(p, 'live')) === 'ended');
  assert.equal(calls.filter((m) => m === 'session.list').length, before, 'the page asked for the list again');
  assert.deepEqual(p.faults, []);
  await p.context().close();
});

test('the list shows what live sessions use, while it is looked at', { skip: missing }, async () => {
  d.trl('new', 'busy');
  d.trl('new', 'over');
  d.trl('kill', 'over');
  const run = d.spawn('run', '-s', 'busy', 'while :; do :; done');
  const p = await page(b, d);
  let sent, begun; // of the last connection: the page before the reload may still be about to connect
  p.on('websocket', (ws) => {
    const [mine, streams] = [(sent = []), (begun = new Map())];
    ws.on('framesent', (f) => mine.push(JSON.parse(f.payload)));
    ws.on('framereceived', (f) => { const o = JSON.parse(f.payload); if (o.data?.stream_id) streams.set(o.id, o.data.stream_id); });
  });
  await p.reload();
  const use = (name) => p.$eval(`[role=row]:has(a:text-is("${name}")) .use`, (e) => e.textContent);
  await until('it has both', async () => /^[1-9]\d* % · [\d.]+ [KMG]?B$/.test(await use('busy')));
  assert.equal(await use('over'), '');
  const streams = () => sent.filter((m) => m.method === 'usage.subscribe');
  assert.equal(streams().length, 1);
  await p.setViewportSize({ width: 390, height: 844 });
  assert.ok(await p.$eval('.grid', (e) => e.scrollWidth <= e.clientWidth), 'the list scrolls sideways');
  assert.ok(await p.$eval('[role=row]:has(a:text-is("busy")) .use', (e) => e.getBoundingClientRect().right <= innerWidth && e.clientWidth > 20));
  await p.goto(d.base + '/#/settings');
  await until('the measuring has ended', () => sent.some((m) => m.method === 'stream.close' && m.params.stream_id === begun.get(streams()[0].id)));
  // A hidden page is not measured for, either.
  await p.goto(d.base + '/#/');
  await until('it measures again', () => begun.has(streams()[1]?.id));
  await hide(p, true);
  await until('it has stopped', () => sent.some((m) => m.method === 'stream.close' && m.params.stream_id === begun.get(streams()[1].id)));
  await hide(p, false);
  await until('it goes on', () => streams().length === 3);
  run.kill('SIGINT');
  d.trl('kill', 'busy');
  await until('nothing is left of it', async () => (await stateOf(p, 'busy')) === 'ended' && (await use('busy')) === '');
  assert.deepEqual(p.faults, []);
  await p.context().close();
});

test('sessions are created, renamed and ended in the page', { skip: missing }, async () => {
  const p = await page(b, d);
  await p.click('text=New…');
  await p.fill('dialog input >> nth=0', 'made');
  assert.deepEqual(await p.$$eval('dialog label:has-text("Isolation") option', (l) => l.map((e) => e.value)), ['', 'workspace', 'read-only']);
  await p.click('dialog button[type=submit]');
  await p.waitForSelector('h1:text("made")');
  const { kind, isolation } = d.call('session.info', { session_id: 'made' });
  assert.deepEqual([kind, isolation], ['shell', undefined]);
  await p.click('text=Rename');
  await p.fill('dialog input', 'renamed');
  await p.keyboard.press('Enter');
  await p.waitForSelector('h1:text("renamed")');
  await p.click('button:text-is("End")');
  await p.click('dialog button.danger');
  await until('it has ended', () => d.call('session.list', { state: 'terminated' }).sessions.some((s) => s.name === 'renamed'));
  await p.context().close();
});

test('many sessions are few rows, filters work, and the keyboard reaches them', { skip: missing }, async () => {
  for (let i = 0; i < 60; i++) d.call('session.create', { name: `many-${i}`, shell: 'none', ...(i % 10 === 0 ? { tags: ['tenth'] } : {}) });
  const p = await page(b, d);
  await until('all are counted', async () => /\b6\d sessions/.test(await p.textContent('.foot')));
  assert.ok((await names(p)).length < 50, 'all rows are in the document');
  // A thousand events meanwhile, as fast as the daemon makes them, until the page has answered the filter.
  let events = 0;
  p.on('websocket', (ws) => ws.on('framereceived', (f) => { if (JSON.parse(f.payload).id === undefined) events++; }));
  await p.reload();
  await until('all are counted', async () => /\b6\d sessions/.test(await p.textContent('.foot')));
  let answered = false;
  const working = Promise.all([0, 1, 2, 3].map(async (first) => {
    for (let i = first; !answered || events < 1000; i += 4) await d.post('exec.run', { session_id: `many-${i % 60}`, argv: ['true'] });
  }));
  await p.keyboard.press('/');
  await p.keyboard.type('tag:tenth');
  await until('six are left', async () => (await names(p)).length === 6);
  answered = true;
  await working;
  await p.keyboard.type(' state:idle');
  await until('all are idle again', async () => (await names(p)).length === 6);
  await until('the address has the filter', async () => /q=tag/.test(await p.evaluate(() => location.hash)));
  await p.keyboard.press('Enter');
  await p.keyboard.press('j');
  await p.keyboard.press('Enter');
  await p.waitForSelector('h1:text("many-40")');
  await p.keyboard.press('Control+k');
  await p.keyboard.type('open many-33');
  await p.keyboard.press('Enter');
  await p.waitForSelector('h1:text("many-33")');
  await p.goto(d.base + '/#/?q=nosuchthing');
  await p.waitForSelector('text=Clear the filter');
  for (let i = 0; i < 60; i++) d.call('session.destroy', { session_id: `many-${i}`, force: true });
  await p.context().close();
});

test('a thousand sessions are few rows and few calls', { skip: missing }, async () => {
  d.call('session.create', { name: 'one', shell: 'none' });
  const context = await b.newContext({ viewport: { width: 1280, height: 800 } });
  let sent = []; // of the last connection
  // The daemon's answer has one live session; on its way to the page it becomes a thousand.
  await context.routeWebSocket(/\/v1\/ws/, (ws) => {
    const mine = (sent = []);
    const lists = new Set();
    const server = ws.connectToServer();
    ws.onMessage((m) => {
      const o = JSON.parse(m);
      mine.push(o.method);
      if (o.method === 'session.list') lists.add(o.id);
      server.send(m);
    });
    server.onMessage((m) => {
      const o = JSON.parse(m);
      const one = lists.has(o.id) && o.data.sessions.find((s) => s.name === 'one');
      if (one) o.data.sessions = Array.from({ length: 1000 }, (_, i) => ({ ...one, session_id: `s-${String(i).padStart(10, '0')}`, name: `many-${i}` }));
      ws.send(one ? JSON.stringify(o) : m);
    });
  });
  const p = await page(b, d, { context });
  await until('all are counted', async () => /\b1\d{3} sessions/.test(await p.textContent('.foot')));
  assert.ok((await names(p)).length < 50, 'all rows are in the document');
  assert.ok(sent.length < 20, `${sent.length} calls: ${sent.join(' ')}`);
  await p.focus('[role=grid]');
  await p.keyboard.press('End');
  await until('the last row is chosen', async () => Number(await p.getAttribute('[role=row][aria-selected=true]', 'aria-rowindex')) > 1000);
  assert.ok((await names(p)).length < 50, 'rows that are out of sight stay in the document');
  await p.keyboard.press('/');
  await p.keyboard.type('many-77');
  await until('eleven are left', async () => (await names(p)).length === 11);
  assert.ok(sent.length < 20, `${sent.length} calls: ${sent.join(' ')}`);
  assert.deepEqual(p.faults, []);
  await p.context().close();
  d.call('session.destroy', { session_id: 'one', force: true });
});

test('a window between a phone and a desktop does not scroll sideways', { skip: missing }, async () => {
  d.call('session.create', { name: 'narrow', shell: 'none', tags: ['ci'] });
  const p = await page(b, d, { viewport: { width: 720, height: 800 } });
  for (const width of [701, 720, 749]) {
    await p.setViewportSize({ width, height: 800 });
    for (const r of ['', 'd', 'inbox', 'recordings', 'events', 'daemon', 'settings']) {
      await p.goto(`${d.base}/#/${r}`);
      await p.waitForSelector('main section, main .empty');
      if (r === '') await p.waitForSelector('.grid');
      const wide = await p.evaluate(() => [document.documentElement, ...document.querySelectorAll('main .grid, main .scroll')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.className || e.tagName));
      assert.deepEqual(wide, [], `${width} px, #/${r}`);
    }
  }
  await p.context().close();
  d.call('session.destroy', { session_id: 'narrow', force: true });
});

test('hostile names, tags, titles and commands are text', { skip: missing }, async () => {
  const bad = ['<img src=x onerror=hacked=1>', '<script>hacked=1</script>', 'javascript:hacked=1', '"><svg/onload=hacked=1>', '<style>*{display:none}</style>', '{{constructor.constructor("hacked=1")()}}', '\u202egnp.exe', '<iframe src=//evil.example>', '<a href=//evil.example>'];
  const accepted = bad.filter((tag) => {
    try {
      d.call('session.create', { shell: 'none', tags: [tag] });
      return true;
    } catch {
      return false; // refused as a tag
    }
  });
  const title = bad.slice(0, 6).join(' ');
  d.call('session.create', { name: 'evil', kind: 'terminal', command: ['sh', '-c', `printf '\\033]0;%s\\007' "$1"; cat`, 'sh', title] });
  d.call('session.create', { name: 'shell', shell: '/bin/sh' });
  for (const c of bad) d.call('exec.run', { session_id: 'shell', command: `printf '%s\\n' '${c.replaceAll("'", '')}'` });
  const p = await page(b, d);
  await until('the title is shown', async () => (await p.textContent('.grid')).includes('<script>hacked=1</script>'));
  for (const tag of accepted.filter((t) => !t.includes('\u202e'))) assert.ok((await p.textContent('.grid')).includes(tag), tag);
  assert.ok(!(await p.textContent('.grid')).includes('\u202e'));
  await p.click('a:text-is("evil")');
  await p.waitForSelector('.screen[data-ready=yes]');
  await until('the title is beside the size', async () => (await p.textContent('.terminal .bar')).includes('onerror'));
  await p.goto(d.base + '/#/s/' + d.call('session.info', { session_id: 'shell' }).session_id);
  await p.waitForSelector('.execs li >> nth=8');
  for (const e of d.call('exec.list', { session_id: 'shell' }).execs) {
    await p.goto(d.base + '/#/x/' + e.exec_id);
    await p.waitForSelector('.lines .row');
  }
  assert.equal(await p.evaluate(() => window.hacked), undefined);
  assert.deepEqual(await p.evaluate(() => window.violations), []);
  assert.deepEqual(p.foreign, []);
  assert.deepEqual(p.faults, []);
  await p.context().close();
});

test('axe finds nothing, light and dark, on a desktop and a phone', { skip: missing }, async () => {
  const axe = readFileSync(root + '/web/node_modules/axe-core/axe.min.js', 'utf8');
  d.call('session.create', { name: 'seen', shell: '/bin/sh', tags: ['ci'] });
  d.call('session.create', { name: 'looked', kind: 'terminal', command: ['cat'] });
  const exec = d.call('exec.run', { session_id: 'seen', command: 'seq 100' }).exec_id;
  const id = (n) => d.call('session.info', { session_id: n }).session_id;
  const routes = ['', 's/' + id('seen'), 's/' + id('seen') + '/info', 's/' + id('looked'), 'x/' + exec, 'settings', 'nosuchpage'];
  const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
  for (const o of [{ colorScheme: 'light' }, { colorScheme: 'dark' }, { colorScheme: 'light', ...phone }, { colorScheme: 'dark', ...phone }]) {
    const p = await page(b, d, { ...o, bypassCSP: true });
    for (const r of routes) {
      await p.goto(`${d.base}/#/${r}`);
      await p.waitForSelector(r.startsWith('s/') && r.endsWith(id('looked')) ? '.screen[data-ready=yes]' : r.startsWith('x/') ? '.lines .row' : r === 'settings' ? 'text=The daemon' : '.bar, .empty');
      await p.evaluate(axe);
      const found = await p.evaluate(() => window.axe.run({ exclude: ['.xterm'] }, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }));
      assert.deepEqual(found.violations.map((v) => `${r}: ${v.id}: ${v.nodes.map((n) => n.html).join(' | ').slice(0, 400)}`), []);
      assert.ok(await p.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${r}: scrolls sideways`);
    }
    await p.context().close();
  }
});
