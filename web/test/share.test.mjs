// Shares: a link to one session or dialogue, which shows nothing else and changes nothing.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { browser, Daemon, fakeAgent, missing, page, root, screen, until } from './harness.mjs';

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

/** Opens the share of a session or dialogue in a browser of its own; sent has all that the daemon sent. */
async function viewer(name) {
  const share = d.json('share', name, '--json');
  const context = await b.newContext({ viewport: { width: 1280, height: 800 } });
  const sent = [];
  context.on('page', (p) => p.on('websocket', (ws) => ws.on('framereceived', (f) => sent.push(f.payload))));
  return { p: await page(b, d, { url: share.url, context }), share, sent };
}

/** None of these texts reached the browser. */
function hidden(sent, ...secrets) {
  assert.ok(sent.length > 0);
  for (const secret of secrets) assert.deepEqual(sent.filter((f) => f.includes(secret)), [], secret);
}

/** Every address of the console leads back to what is shared. */
async function staysAt(p, home, others) {
  for (const to of ['', 'd', 'inbox', 'events', 'daemon', 'settings', 'nosuchpage', ...others]) {
    await p.evaluate((h) => (location.hash = h), '#/' + to);
    await until(`#/${to} leads back`, async () => (await p.evaluate(() => location.hash)) === home);
  }
  assert.equal(await p.$('header nav'), null);
  await p.keyboard.press('Control+k');
  await p.waitForSelector('.choices [role=option]');
  const names = await p.$$eval('.choices [role=option]', (l) => l.map((e) => e.firstChild.textContent));
  assert.ok(names.every((n) => /colours|Keyboard|^Open shared/.test(n)), names.join());
  await p.keyboard.press('Escape');
}

async function over(p, share) {
  d.trl('web', 'revoke', share.share_id);
  await p.waitForSelector('h1:text("This share has ended")');
  assert.deepEqual(p.faults, []);
  assert.deepEqual(await p.evaluate(() => window.violations), []);
  assert.deepEqual(p.foreign, []);
  await p.context().close();
}

test('the share of a terminal is live, takes no key, and shows nothing else', { skip: missing }, async () => {
  const other = d.call('session.create', { name: 'private', kind: 'terminal', command: ['sh', '-c', 'echo sesame; cat'], tags: ['inner-circle'] }).session_id;
  const id = d.call('session.create', { name: 'shared', kind: 'terminal', command: ['sh', '-c', 'echo here; cat'], tags: ['inner-circle'] }).session_id;
  const { p, share, sent } = await viewer('shared');
  await p.waitForSelector('.screen[data-ready=yes]');
  const shows = (text) => until(`it shows ${text}`, async () => (await screen(p))?.rows.some((r) => r.includes(text)));
  await shows('here');
  await p.click('.screen');
  await p.keyboard.type('typed by the viewer\n');
  d.call('session.input', { session_id: id, text: 'typed by the owner', keys: ['enter'] });
  await shows('typed by the owner');
  assert.ok(!d.call('session.screen', { session_id: id }).text.includes('viewer'));
  for (const name of ['Rename', 'End', 'Type here', 'Take size']) assert.equal(await p.$(`button:text-is("${name}")`), null, name);
  await p.keyboard.press('Control+Alt+Escape');
  await staysAt(p, '#/s/' + id, ['s/' + other, 's/' + other + '/info', 'x/x-' + other.slice(2) + '-1']);
  await p.waitForSelector('.screen[data-ready=yes]');
  hidden(sent, 'private', 'sesame', 'inner-circle', other);
  await over(p, share);
  for (const s of [id, other]) d.call('session.destroy', { session_id: s, force: true });
});

test('the share of a shell has its commands and their output', { skip: missing }, async () => {
  const id = d.call('session.create', { name: 'shared', shell: '/bin/sh' }).session_id;
  d.call('exec.run', { session_id: id, command: 'seq 3' });
  const { p, share } = await viewer('shared');
  await p.click('.execs a');
  await until('the output is there', async () => (await p.$$eval('.lines .row', (l) => l.map((e) => e.textContent))).join() === '1,2,3');
  await p.click('.back');
  await p.waitForSelector('.execs a');
  assert.equal(await p.$('[aria-label="Run a command"]'), null);
  const run = d.call('exec.run', { session_id: id, command: 'echo new' }).exec_id;
  await until('the new command is there', async () => (await p.$$(`.execs a[href*="${run}"]`)).length === 1);
  await over(p, share);
  d.call('session.destroy', { session_id: id, force: true });
});

test('the share of a dialogue is live, and answers nothing', { skip: missing }, async () => {
  const start = (name, prompt) => d.call('dialogue.create', { agent: 'claude', name, argv: [fakeAgent()], working_dir: d.dir, prompt }).dialogue_id;
  const other = start('private', 'say sesame');
  const id = start('shared', 'say hello');
  const { p, share, sent } = await viewer('shared');
  await p.waitForSelector('.md:has-text("hello")');
  d.call('dialogue.send', { dialogue_id: id, text: 'say more; ask Bash ls' });
  await p.waitForSelector('.md:has-text("more")');
  await p.waitForSelector('.ask');
  assert.deepEqual(await p.$$eval('.ask button', (l) => l.map((e) => e.textContent)), []);
  assert.equal(await p.$('#composer'), null);
  assert.equal(await p.$('.inspect'), null);
  assert.equal(await p.$('button:text-is("Interrupt")'), null);
  await staysAt(p, '#/d/' + id, ['d/' + other, `d/${id}/raw`, 's/' + d.call('dialogue.info', { dialogue_id: id }).session_id]);
  await p.waitForSelector('.md:has-text("more")');
  hidden(sent, 'private', 'sesame', other);
  await over(p, share);
  const agent = d.call('dialogue.info', { dialogue_id: id }).session_id;
  for (const word of [id, agent]) { // the session of the agent has its raw lines
    const made = d.json('share', word, '--json').share_id;
    assert.equal(d.json('web', 'ls', '--json').shares.find((s) => s.share_id === made).dialogue_id, id, word);
    d.trl('web', 'revoke', made);
  }
  for (const x of [id, other]) d.call('dialogue.terminate', { dialogue_id: x, force: true });
});

test('a share has as many viewers as it allows, and leaves the login of a browser as it is', { skip: missing }, async () => {
  const id = d.call('session.create', { name: 'shared', shell: '/bin/sh' }).session_id;
  const share = d.json('share', 'shared', '--viewers', '1', '--json');
  const first = await page(b, d, { url: share.url });
  await first.waitForSelector('h1:text("shared")');
  const second = await (await b.newContext()).newPage();
  await second.goto(share.url);
  await second.waitForSelector('text=as many viewers as it allows');
  const owner = await page(b, d);
  await owner.goto(share.url);
  await owner.waitForSelector('h1:text("shared")');
  await owner.waitForSelector('header nav');
  await owner.waitForSelector('button:text-is("End")');
  for (const p of [first, second, owner]) await p.context().close();
  d.trl('web', 'revoke', share.share_id);
  d.call('session.destroy', { session_id: id, force: true });
});

test('Settings shows the shares and who watches, and ends them', { skip: missing }, async () => {
  const id = d.call('session.create', { name: 'shared', shell: '/bin/sh' }).session_id;
  const owner = await page(b, d, { to: 'shared' });
  const { p, share } = await viewer('shared');
  await p.waitForSelector('h1:text("shared")');
  await owner.goto(d.base + '/#/settings');
  const row = '[aria-label=Shares] li:has-text("shared")';
  await owner.waitForSelector(`${row}:has-text("1 of 5 viewers: ")`);
  // A viewer who leaves in another tab does not see that the share has ended, because it has not.
  await p.evaluate(() => fetch('/web/logout', { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Trl-Key': localStorage.getItem('trl.key') }, body: '{}' }));
  await p.waitForSelector('h1:text("You have been logged out")');
  await owner.waitForSelector(`${row}:has-text("0 of 5 viewers")`);
  await p.goto('about:blank');
  await p.goto(share.url);
  await p.waitForSelector('.net.online');
  await owner.click(`${row} button:text-is("End")`);
  await owner.click('dialog button.danger');
  await p.waitForSelector('h1:text("This share has ended")');
  await owner.waitForSelector('text=trl share NAME');
  assert.deepEqual(owner.faults, []);
  for (const one of [p, owner]) await one.context().close();
  d.call('session.destroy', { session_id: id, force: true });
});

/** Calls a method as a page does, with its cookie and its key. */
const calls = (p, method, params) => p.evaluate(async ([m, body]) => {
  const r = await fetch('/v1/' + m, { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Trl-Key': localStorage.getItem('trl.key') }, body: JSON.stringify(body) });
  return { status: r.status, code: (await r.json()).error?.code };
}, [method, params]);
const shares = () => d.json('web', 'ls', '--json').shares;

test('a page makes the link of a share, and shows it once', { skip: missing }, async () => {
  const id = d.call('session.create', { name: 'shared', kind: 'terminal', command: ['sh', '-c', 'echo here; cat'] }).session_id;
  const context = await b.newContext({ viewport: { width: 1280, height: 800 }, permissions: ['clipboard-read', 'clipboard-write'] });
  const owner = await page(b, d, { to: 'shared', context });
  const asked = [];
  owner.on('request', (r) => asked.push(r.url()));
  await owner.click('button:text-is("Share")');
  await owner.selectOption('dialog select', '600');
  await owner.fill('dialog input[type=number]', '0'); // the form itself refuses it
  await owner.click('dialog button.primary');
  assert.deepEqual(shares(), []);
  await owner.fill('dialog input[type=number]', '1');
  await owner.click('dialog button.primary');
  const link = await owner.inputValue('dialog input[readonly]');
  assert.ok(link.startsWith(d.base + '/#/login/') && link.endsWith('?to=/s/' + id), link);
  const [made] = shares();
  assert.equal(made.session_id, id);
  assert.equal(made.viewers, 1);
  assert.equal(Date.parse(made.expires_at) - Date.parse(made.created_at) < 601_000, true, made.expires_at);
  await owner.click('dialog button:text-is("Copy the link")');
  await owner.waitForSelector('dialog button:text-is("Copied")');
  assert.equal(await owner.evaluate(() => navigator.clipboard.readText()), link);

  // The code is nowhere but in the dialog, which no longer shows it when it is opened again.
  const code = link.split('/login/')[1].split('?')[0];
  await owner.click('dialog button:text-is("Done")');
  await owner.click('button:text-is("Share")');
  await owner.waitForSelector('dialog select');
  assert.equal(await owner.$('dialog input[readonly]'), null);
  await owner.keyboard.press('Escape');
  assert.ok(!(await owner.content()).includes(code));
  assert.ok(!(await owner.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href, history.state]))).includes(code));
  assert.deepEqual(asked.filter((u) => u.includes(code)), []);
  for (const kept of [d.log, d.trl('audit', '--json'), d.trl('web', 'ls', '--json')]) assert.ok(!kept.includes(code));
  assert.ok(d.trl('audit').includes('web.share'));

  // It shows what every share shows, to as many as it allows, and Settings ends it.
  const watching = await page(b, d, { url: link });
  await until('it is live', async () => (await screen(watching))?.rows.some((r) => r.includes('here')));
  const second = await (await b.newContext()).newPage();
  await second.goto(link);
  await second.waitForSelector('text=as many viewers as it allows');
  await owner.goto(d.base + '/#/settings');
  const row = '[aria-label=Shares] li:has-text("shared")';
  await owner.waitForSelector(`${row}:has-text("1 of 1 viewer: ")`);
  await owner.click(`${row} button:text-is("End")`);
  await owner.click('dialog button.danger');
  await watching.waitForSelector('h1:text("This share has ended")');
  for (const p of [owner, watching]) {
    assert.deepEqual(p.faults, []);
    assert.deepEqual(await p.evaluate(() => window.violations), []);
  }
  for (const p of [owner, watching, second]) await p.context().close();
  d.call('session.destroy', { session_id: id, force: true });
});

test('neither a viewer nor a read-only page can make a share, and a refusal is shown', { skip: missing }, async () => {
  const id = d.call('session.create', { name: 'shared', shell: '/bin/sh' }).session_id;
  const dialogue = d.call('dialogue.create', { agent: 'claude', name: 'talk', argv: [fakeAgent()], working_dir: d.dir, prompt: 'say hello' }).dialogue_id;
  const { p: watching, share } = await viewer('shared');
  await watching.waitForSelector('h1:text("shared")');
  const reading = await page(b, d, { url: d.open('--read-only') });
  await reading.goto(`${d.base}/#/s/${id}`);
  await reading.waitForSelector('h1:text("shared")');
  for (const p of [watching, reading]) {
    assert.equal(await p.$('button:text-is("Share")'), null);
    assert.deepEqual(await calls(p, 'web.share', { session_id: id }), { status: 403, code: 'FORBIDDEN' });
  }
  assert.equal(shares().length, 1);

  // The daemon keeps 64 shares. The page shows why there is no link, and makes it when there is room.
  for (let n = 1; n < 64; n++) await d.post('web.share', { session_id: id });
  const owner = await page(b, d, { to: 'talk' });
  await owner.click('button[aria-label=More]');
  await owner.click('[role=menuitem]:text-is("Share…")');
  await owner.click('dialog button.primary');
  await owner.waitForSelector('dialog [role=alert]:has-text("too many shares")');
  assert.equal(await owner.$('dialog input[readonly]'), null);
  d.trl('web', 'revoke', share.share_id);
  await owner.click('dialog button.primary');
  assert.ok((await owner.inputValue('dialog input[readonly]')).endsWith('?to=/d/' + dialogue));
  assert.deepEqual(owner.faults, []);
  for (const p of [owner, watching, reading]) await p.context().close();
  d.trl('web', 'revoke', '--all');
  d.call('session.destroy', { session_id: id, force: true });
  d.call('dialogue.terminate', { dialogue_id: dialogue, force: true });
});

test('axe finds nothing in the dialog: the form, a refusal and the link, and nothing scrolls sideways', { skip: missing }, async () => {
  const axe = readFileSync(root + '/web/node_modules/axe-core/axe.min.js', 'utf8');
  const id = d.call('dialogue.create', { agent: 'claude', name: 'talk', argv: [fakeAgent()], working_dir: d.dir, prompt: 'say hello' }).dialogue_id;
  for (let n = 0; n < 64; n++) await d.post('web.share', { dialogue_id: id }); // as many as the daemon keeps
  const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
  for (const o of [{ colorScheme: 'light' }, { colorScheme: 'dark' }, { colorScheme: 'light', ...phone }, { colorScheme: 'dark', ...phone }]) {
    const p = await page(b, d, { ...o, to: 'talk', bypassCSP: true });
    await p.evaluate(axe);
    const look = async (state) => {
      const found = await p.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }));
      assert.deepEqual(found.violations.map((v) => `${state}: ${v.id}: ${v.nodes.map((n) => n.html).join(' | ').slice(0, 400)}`), []);
      assert.ok(found.passes.some((v) => v.nodes.some((n) => n.target.join().includes('dialog') || n.html.includes('aria-label="Close"'))), `${state}: axe did not see the dialog`);
      assert.ok(await p.evaluate(() => [document.documentElement, document.querySelector('dialog .inside')].every((e) => e.scrollWidth <= e.clientWidth)), `${state}: scrolls sideways`);
    };
    await p.click('button[aria-label=More]');
    await p.click('[role=menuitem]:text-is("Share…")');
    await p.waitForSelector('dialog select');
    await look('form');
    await p.click('dialog button.primary');
    await p.waitForSelector('dialog [role=alert]:has-text("too many shares")');
    await look('refusal');
    d.trl('web', 'revoke', shares()[0].share_id);
    await p.click('dialog button.primary');
    await p.waitForSelector('dialog input[readonly]');
    await look('link');
    await p.context().close();
  }
  d.trl('web', 'revoke', '--all');
  d.call('dialogue.terminate', { dialogue_id: id, force: true });
});
