// The site of trl docs, in Chromium.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { browser, missing, root, trl, until } from './harness.mjs';

let b, server, base;
before(async () => {
  if (missing) return;
  server = spawn(trl, ['docs', '--print'], { stdio: ['ignore', 'pipe', 'inherit'] });
  base = await new Promise((resolve) => createInterface(server.stdout).once('line', resolve));
  b = await browser();
});
after(async () => {
  await b?.close();
  if (!server) return;
  const ended = new Promise((resolve) => server.once('exit', resolve));
  server.kill('SIGTERM');
  await ended;
});

/** A page whose faults, such as a violation of its policy, are collected. */
async function open(path, options = {}) {
  const context = await b.newContext({ viewport: { width: 1100, height: 800 }, ...options });
  const p = await context.newPage();
  p.faults = [];
  p.on('pageerror', (e) => p.faults.push(String(e)));
  p.on('console', (m) => { if (m.type() === 'error') p.faults.push(m.text()); });
  p.on('request', (r) => { if (!r.url().startsWith(base)) p.faults.push(`loads ${r.url()}`); });
  await p.goto(base + path);
  return p;
}

test('the search finds a section, and the keyboard is enough', { skip: missing }, async () => {
  const p = await open('');
  await p.keyboard.press('/');
  await p.keyboard.type('kill_grace_s timeout cancel');
  await until('something is found', () => p.$('#found a'));
  const first = await p.$eval('#found a mark', (e) => e.textContent.toLowerCase());
  assert.ok(['kill_grace_s', 'timeout', 'cancel'].includes(first), first);
  await p.fill('#search input', 'stability');
  await until('the heading comes first', async () => (await p.$eval('#found a b', (e) => e.textContent)) === 'The API › Stability');
  await p.keyboard.press('ArrowDown');
  await p.keyboard.press('Enter');
  await p.waitForURL(base + 'api.html#stability');
  await p.fill('#search input', 'zzzqqq');
  await until('nothing is found', async () => (await p.textContent('#found')) === 'No page has all of these words.');
  await p.keyboard.press('Escape');
  assert.equal(await p.isVisible('#found'), false);
  assert.deepEqual(p.faults, []);
  await p.context().close();
});

test('axe finds nothing, light and dark, on a desktop and a phone, and no page scrolls sideways', { skip: missing }, async () => {
  const axe = readFileSync(root + '/web/node_modules/axe-core/axe.min.js', 'utf8');
  for (const options of [{ colorScheme: 'light' }, { colorScheme: 'dark', viewport: { width: 390, height: 800 } }]) {
    for (const name of ['index', 'quickstart', 'coming-from', 'settings']) {
      const p = await open(name + '.html', options);
      const wide = await p.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, `${name}: ${wide} pixels too wide`);
      assert.deepEqual(p.faults, [], name);
      await p.evaluate(axe);
      const found = await p.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }));
      assert.deepEqual(found.violations.map((v) => `${name}: ${v.id}: ${v.nodes.map((n) => n.html.slice(0, 200)).slice(0, 3).join(' ')}`), []);
      await p.context().close();
    }
  }
});
