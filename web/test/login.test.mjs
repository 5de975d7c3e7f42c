import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { browser, Daemon, missing, page, root, until } from './harness.mjs';

let d, b;
before(async () => {
  if (missing) return;
  d = await Daemon.start('--http-hosts', 'box.test');
  b = await browser();
});
after(async () => {
  await b?.close();
  await d?.stop();
});

test('trl open logs a browser in, once', { skip: missing }, async () => {
  const url = d.open();
  const c = await b.newContext();
  const p = await c.newPage();
  const sent = [];
  p.on('request', (r) => sent.push(r.url()));
  await p.goto(url);
  await p.waitForSelector('header.top');
  await until('the code is gone', async () => (await p.evaluate(() => location.hash)) === '#/');
  const code = url.split('/').at(-1);
  assert.ok(sent.every((u) => !u.includes(code)), 'the code is in a URL that was sent');
  assert.ok(!d.log.includes(code), 'the code is in the log');
  assert.equal(d.json('web', 'ls', '--json').logins.length, 1);

  await p.reload();
  await p.waitForSelector('header.top'); // still logged in

  const other = await (await b.newContext()).newPage();
  await other.goto(url);
  await other.waitForSelector('main.login [role=alert]');
  assert.match(await other.textContent('main.login [role=alert]'), /used before/);
  assert.deepEqual(await other.context().cookies(), []);
  await until('the code is gone', async () => (await other.evaluate(() => location.hash)) === '#/');
  await other.context().close();
  await c.close();
});

test('another port of the machine gets the cookie and cannot use it', { skip: missing }, async () => {
  const p = await page(b, d);
  let cookie = '';
  const server = createServer((req, res) => {
    cookie = req.headers.cookie ?? '';
    res.setHeader('Content-Type', 'text/html');
    res.end('<!doctype html><title>other</title>');
  });
  await new Promise((r) => server.listen(0, '127.0.0.1', r));
  try {
    const stranger = await p.context().newPage();
    await stranger.goto(`http://127.0.0.1:${server.address().port}/`);
    assert.match(cookie, /^trl-\d+=/); // it leaks: the key is what protects
    const answer = await fetch(d.base + '/v1/session.list', { method: 'POST', headers: { Cookie: cookie, Origin: d.base, 'Content-Type': 'application/json' }, body: '{}' });
    assert.equal(answer.status, 401);
    // A page of that port cannot call either, nor open a WebSocket.
    const tried = await stranger.evaluate(async (base) => {
      const call = await fetch(base + '/v1/session.list', { method: 'POST', credentials: 'include', mode: 'no-cors', body: '{}' }).then((r) => r.type, () => 'failed');
      const ws = await new Promise((r) => {
        const s = new WebSocket(base.replace('http', 'ws') + '/v1/ws', ['trl.v1']);
        s.onopen = () => r('open');
        s.onerror = () => r('refused');
      });
      return { call, ws };
    }, d.base);
    assert.equal(tried.ws, 'refused');
    assert.notEqual(tried.call, 'basic');
  } finally {
    server.close();
    server.closeAllConnections();
    await p.context().close();
  }
});

test('a revoked login loses its connection, and a new one goes on where it was', { skip: missing }, async () => {
  const p = await page(b, d);
  await p.goto(d.base + '/#/settings');
  await p.waitForSelector('text=The daemon');
  d.trl('web', 'revoke', '--all');
  await p.waitForSelector('text=Your login has ended');
  const token = d.token();
  await p.click('text=Log in with a token');
  await p.fill('input[type=password]', token);
  await p.click('.card button[type=submit]');
  await until('the page goes on', async () => (await p.$('.cover')) === null);
  await until('the page is the one before', async () => (await p.evaluate(() => location.hash)) === '#/settings');
  assert.ok(!(await p.evaluate(() => JSON.stringify({ ...localStorage }))).includes(token), 'the token is stored');
  await p.waitForSelector('.net.online');
  await p.context().close();
});

test('a read-only page offers nothing that changes something', { skip: missing }, async () => {
  d.trl('new', 'calm');
  const p = await page(b, d, { to: '--read-only' });
  await p.waitForSelector('text=calm');
  assert.equal(await p.$('text=New…'), null);
  await p.click('text=calm');
  await p.waitForSelector('h1');
  assert.equal(await p.$('text=Rename'), null);
  assert.equal(await p.$('[aria-label="Run a command"]'), null);
  d.trl('kill', 'calm');
  await p.context().close();
});

test('trl open NAME shows that session', { skip: missing }, async () => {
  d.trl('new', 'there');
  const p = await page(b, d, { to: 'there' });
  await p.waitForSelector('h1:text("there")');
  await p.context().close();
});

test('axe finds nothing where no login is: the login, a code and a share that are over', { skip: missing }, async () => {
  const axe = readFileSync(root + '/web/node_modules/axe-core/axe.min.js', 'utf8');
  d.call('session.create', { name: 'over', shell: 'none' });
  for (const o of [{ colorScheme: 'light' }, { colorScheme: 'dark' }, { colorScheme: 'light', viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }]) {
    const look = async (p, what) => {
      await p.evaluate(axe);
      const found = await p.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }));
      assert.deepEqual(found.violations.map((v) => `${what}: ${v.id}: ${v.nodes.map((n) => n.html).join(' | ').slice(0, 400)}`), []);
      assert.ok(await p.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${what}: scrolls sideways`);
    };
    const c = await b.newContext({ ...o, bypassCSP: true });
    c.setDefaultTimeout(60_000);
    const p = await c.newPage();
    await p.goto(d.base + '/');
    await p.waitForSelector('main.login');
    await p.click('main.login summary');
    await look(p, 'login');
    await p.goto('about:blank');
    await p.goto(`${d.base}/#/login/nosuchcode`);
    await p.waitForSelector('main.login [role=alert]');
    await look(p, 'a code that is over');
    await c.close();
    const shared = await page(b, d, { url: d.json('share', 'over', '--json').url, ...o, bypassCSP: true });
    await look(shared, 'share');
    for (const s of d.json('web', 'ls', '--json').shares) d.trl('web', 'revoke', s.share_id);
    await shared.waitForSelector('h1:text("This share has ended")');
    await look(shared, 'a share that is over');
    await shared.context().close();
  }
});

test('a page that is not encrypted says so', { skip: missing }, async () => {
  const safe = await page(b, d);
  assert.equal(await safe.$('.banner.danger'), null, 'a page of this machine is warned about');
  await safe.context().close();
  const far = await browser('--host-resolver-rules=MAP box.test 127.0.0.1');
  try {
    const p = await page(far, d, { base: `http://box.test:${d.port}` });
    await p.waitForSelector('.banner.danger:has-text("not encrypted")');
    await p.waitForSelector('.net.online');
    d.trl('new', 'far');
    await p.click('a:text-is("far")');
    await p.fill('[aria-label="Run a command"]', 'echo he$((1))re');
    await p.keyboard.press('Enter');
    await p.waitForSelector('.lines .row:has-text("he1re")');
    assert.deepEqual(p.faults.filter((f) => !f.startsWith('The Cross-Origin-Opener-Policy header has been ignored')), []); // for the same reason
    d.trl('kill', 'far');
  } finally {
    await far.close();
  }
});
