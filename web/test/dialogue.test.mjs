// Dialogues in the page, with the real daemon and the program that stands for an agent.
import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { browser, cutter, Daemon, fakeAgent, freePort, gives, line, missing, page, root, says, until, use } from './harness.mjs';

let d, b;
before(async () => {
  if (missing) return;
  d = await Daemon.start();
  writeFileSync(d.env.TRL_CONFIG, '[isolation.quiet]\nnetwork = "none"\nfiles = "workspace"\n');
  await d.kill();
  mkdirSync(join(d.dir, 'bin'));
  writeFileSync(join(d.dir, 'bin', 'qwen'), '#!/bin/sh\n', { mode: 0o755 });
  d.env.PATH += ':' + join(d.dir, 'bin');
  await d.run();
  b = await browser();
});
after(async () => {
  await b?.close();
  await d?.stop();
});

const talk = (name, prompt, { flags = [], ...more } = {}) => d.call('dialogue.create', { agent: 'claude', name, argv: [fakeAgent(), ...flags], working_dir: d.dir, ...(prompt ? { prompt } : {}), ...more }).dialogue_id;
const info = (id) => d.call('dialogue.info', { dialogue_id: id });
const idle = (id) => until('the agent is idle', () => info(id).state === 'idle');
async function opened(id, options = {}) {
  const p = await page(b, d, { to: id, ...options });
  await p.waitForSelector('.talk');
  return p;
}
const send = async (p, text) => {
  await p.fill('#composer', text);
  await p.keyboard.press('Enter');
};
/** Moves the focus by keyboard, with Tab or Shift+Tab, until it is there. */
async function tabTo(p, key, selector) {
  for (let i = 0; i < 80; i++) {
    if (await p.evaluate((s) => document.activeElement?.matches(s), selector)) return;
    await p.keyboard.press(key);
  }
  assert.fail(`the keyboard does not reach ${selector}`);
}
const shows = (p, text, where = '.feed') => until(`${where} shows ${text}`, async () => (await p.textContent(where)).includes(text));
const end = async (p, id) => {
  assert.deepEqual(p.faults, []);
  assert.deepEqual(await p.evaluate(() => window.violations), []);
  assert.deepEqual(p.foreign, []);
  await p.context().close();
  d.call('dialogue.terminate', { dialogue_id: id, force: true });
};

test('a dialogue is started in the page, answers, and is the same in the list', { skip: missing }, async () => {
  const p = await page(b, d);
  await p.goto(d.base + '/#/d');
  await p.waitForSelector('text=No agents are working for you yet');
  // Which agents there are is said; the daemon looks at its PATH.
  const found = (d.call('system.info', { agents: true }).agents ?? []).map((a) => a.argv.join(' '));
  assert.ok(found.includes('qwen --acp'), found.join()); // a program of this test, see before
  await until('the agents are named', async () => JSON.stringify(await p.$$eval('.found code', (l) => l.map((e) => e.textContent))) === JSON.stringify(found));
  await p.click('text=New dialogue…');
  await p.fill('dialog textarea >> nth=0', 'say **bold** and `code`');
  await p.fill('dialog label:has-text("Directory") input', d.dir);
  await p.fill('dialog label:has-text("Name") input', 'first');
  await p.click('dialog summary');
  await p.fill('dialog label:has-text("Program") input', fakeAgent());
  await p.fill('dialog label:has-text("Rules") textarea', 'allow Bash(git *)\ndeny Read(*.env)');
  await p.click('dialog button[type=submit]');
  await p.waitForSelector('.md strong:text-is("bold")');
  await p.waitForSelector('.md code:text-is("code")');
  await p.waitForSelector('.turn-line:has-text("Turn completed")');
  const got = info('first');
  assert.deepEqual(got.policy.rules, [{ tool: 'Bash', pattern: 'git *', action: 'allow' }, { tool: 'Read', pattern: '*.env', action: 'deny' }]);
  await p.click('nav a:has-text("Dialogues")');
  await until('the list shows it', async () => (await p.textContent('.grid')).includes('first') && (await p.textContent('.grid')).includes('idle'));
  await end(p, got.dialogue_id);
});

test('a dialogue and a session are started with an isolation, and say so', { skip: missing }, async () => {
  // The agent is where it may be read: below the directory of the dialogue.
  const dir = join(d.dir, 'isolated');
  mkdirSync(dir);
  copyFileSync(fakeAgent(), join(dir, 'agent'));
  const missed = d.call('system.info', { enforcement: true }).enforcement.isolation.not_enforced;
  const p = await page(b, d);
  await p.goto(d.base + '/#/d');
  await p.click('text=New dialogue…');
  await p.fill('dialog textarea >> nth=0', 'say hello');
  await p.fill('dialog label:has-text("Directory") input', dir);
  await p.fill('dialog label:has-text("Name") input', 'kept');
  const isolation = 'dialog label:has-text("Isolation") select';
  await p.waitForSelector(isolation + ' option[value=quiet]', { state: 'attached' });
  assert.deepEqual(await p.$$eval(isolation + ' option', (l) => l.map((e) => e.value)), ['', 'workspace', 'read-only', 'quiet']);
  await p.selectOption(isolation, 'workspace');
  await p.click('dialog summary');
  await p.fill('dialog label:has-text("Program") input', join(dir, 'agent'));
  await p.click('dialog button[type=submit]');
  if (missed.length > 0) { // where it cannot be enforced, nothing starts, and the form says why
    await p.waitForSelector('dialog [role=alert]');
    assert.equal(d.call('dialogue.list').dialogues.filter((x) => x.name === 'kept').length, 0);
    await p.context().close();
    return;
  }
  await p.waitForSelector('.turn-line:has-text("Turn completed")');
  const got = info('kept');
  assert.equal(d.call('session.info', { session_id: got.session_id }).isolation.profile, 'workspace');
  await p.click('button[aria-label=More]');
  await p.click('[role=menuitem]:has-text("Its session")');
  await until('the session says so', async () => (await p.textContent('.facts')).includes('workspace: files workspace, network all, processes own'));
  await p.goto(d.base + '/#/');
  await p.click('text=New…');
  await p.fill('dialog label:has-text("Name") input', 'silent');
  await p.fill('dialog label:has-text("Directory") input', dir);
  await p.waitForSelector(isolation + ' option[value=quiet]', { state: 'attached' });
  await p.selectOption(isolation, 'quiet');
  await p.click('dialog button[type=submit]');
  await p.waitForSelector('h1:text("silent")');
  const { profile, files, network } = d.call('session.info', { session_id: 'silent' }).isolation;
  assert.deepEqual([profile, files, network], ['quiet', 'workspace', 'none']);
  d.call('session.destroy', { session_id: 'silent', force: true });
  await end(p, got.dialogue_id);
});

test('text streams, scrolling up holds its place, and the end sticks again', { skip: missing }, async () => {
  const id = talk('stream', 'lines 150', { flags: ['-flat'] });
  await idle(id);
  const p = await opened(id);
  await shows(p, 'line 150 of 150');
  const box = () => p.$eval('.feed', (e) => ({ top: e.scrollTop, far: e.scrollHeight - e.scrollTop - e.clientHeight }));
  await until('it is at the end', async () => (await box()).far < 3);
  await p.hover('.feed');
  await until('it has left the end', async () => {
    const { far } = await box();
    if (far < 3) await p.mouse.wheel(0, -1200); // a page that still draws its last rows goes back to the end
    return far > 300;
  });
  const place = () => p.$$eval('.feed-row', (l) => { const at = l.find((e) => e.getBoundingClientRect().top > 150); return [at.dataset.key, Math.round(at.getBoundingClientRect().top)]; });
  await p.waitForSelector('.to-end');
  const [key, top] = await place();
  d.call('dialogue.send', { dialogue_id: id, text: 'lines 20' });
  await idle(id);
  await until('the new items are counted', async () => (await p.textContent('.to-end')) === '21 new ↓');
  const now = await p.$eval(`[data-key="${key}"]`, (e) => Math.round(e.getBoundingClientRect().top));
  assert.ok(Math.abs(now - top) <= 2, `what was read moved from ${top} to ${now}`);
  await p.click('.to-end');
  await until('it is at the end again', async () => (await box()).far < 3 && (await p.textContent('.feed')).includes('line 20 of 20'));
  await send(p, 'say the very last words');
  await shows(p, 'the very last words');
  await until('it sticks', async () => (await box()).far < 3);
  await end(p, id);
});

test('50 deltas in a second: what is read holds its place, and the text is that of trl dialogue show', { skip: missing }, async () => {
  const id = talk('deltas', 'lines 60');
  await idle(id);
  const p = await page(b, d);
  const deltas = [];
  p.on('websocket', (ws) => ws.on('framereceived', (f) => { const o = JSON.parse(f.payload); if (o.event?.delta) deltas.push(o.event.delta.text); }));
  await p.goto(`${d.base}/#/d/${id}`);
  await p.reload();
  await shows(p, 'line 60 of 60');
  const far = () => p.$eval('.feed', (e) => e.scrollHeight - e.scrollTop - e.clientHeight);
  await p.hover('.feed');
  await until('it has left the end', async () => {
    if ((await far()) < 300) await p.mouse.wheel(0, -900);
    return (await far()) > 300;
  });
  const [key, top] = await p.$$eval('.feed-row', (l) => { const at = l.find((e) => e.getBoundingClientRect().top > 150); return [at.dataset.key, at.getBoundingClientRect().top]; });
  const held = async () => {
    const now = await p.$eval(`[data-key="${key}"]`, (e) => e.getBoundingClientRect().top);
    assert.ok(Math.abs(now - top) <= 2, `what is read moved from ${top} to ${now}`);
  };
  // A block of code is shown as it is written.
  const pieces = ['```text\n', ...Array.from({ length: 150 }, (_, i) => `${i}:  é 中文 😀\t"x" <b>&amp; ${'ab '.repeat(i % 7)}|\n`), '```'];
  const event = (e) => line({ type: 'stream_event', parent_tool_use_id: null, event: e });
  await d.post('dialogue.send', { dialogue_id: id, text: [
    event({ type: 'message_start', message: { id: 'msg_deltas', type: 'message', role: 'assistant', model: 'm', content: [] } }), event({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
    ...pieces.flatMap((text) => [event({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }), 'silence 20ms']),
    line({ type: 'assistant', parent_tool_use_id: null, message: { id: 'msg_deltas', role: 'assistant', model: 'm', content: [{ type: 'text', text: pieces.join('') }] } }),
    event({ type: 'content_block_stop', index: 0 }), event({ type: 'message_stop' }),
  ].join('; ') });
  for (const n of [10, 60, 110]) {
    await until(`${n} deltas are there`, () => deltas.length > n);
    await held();
  }
  await idle(id);
  await until('the new items are counted', async () => (await p.textContent('.to-end')) === '2 new ↓');
  await held();
  assert.equal(deltas.join(''), pieces.join(''));
  assert.equal(deltas.length, pieces.length);
  await p.click('.to-end');
  const shown = await until('the text is there', () => p.$$eval('.feed .item.agent pre code', (l) => l.at(-1)?.textContent));
  const told = d.trl('dialogue', 'show', '--full', id);
  assert.equal(shown + '\n', told.slice(told.lastIndexOf('```text\n') + 8, told.lastIndexOf('```')));
  assert.equal(shown + '\n', pieces.slice(1, -1).join(''));
  await end(p, id);
});

test('a transcript of 10,000 items is paged, few nodes are in the document, and paging up does not jump', { skip: missing }, async () => {
  // 300 calls of a subagent that has one that has one that reads, and lines.
  const calls = Array.from({ length: 300 }, (_, i) => {
    const [one, two, three] = [`a${i}`, `b${i}`, `c${i}`];
    const read = use('Read', { file_path: `/file${i}` }, { parent: three });
    return [use('Agent', { description: `work ${i}` }, { id: one }).line, use('Agent', { description: 'inner' }, { parent: one, id: two }).line, use('Agent', { description: 'innermost' }, { parent: two, id: three }).line, read.line,
      gives(read.id, 'x', { parent: three }), gives(three, 'x', { parent: two }), gives(two, 'x', { parent: one }), gives(one, `report ${i}`)].join('; ');
  });
  const count = 8800;
  const id = talk('long', '', { flags: ['-flat'] });
  await d.post('dialogue.send', { dialogue_id: id, text: [...calls, `lines ${count}`].join('; ') });
  await idle(id);
  const last = Number(/^i1\.(\d+)$/.exec(d.call('dialogue.transcript', { dialogue_id: id, limit: 1 }).items.at(-1).item_id)[1]);
  assert.ok(last >= 10_000, String(last));
  const item = (n) => `i1.${last - count + n}`; // of line n
  const p = await page(b, d);
  let bytes = 0;
  let pages = 0;
  const open = new Set();
  p.on('websocket', (ws) => {
    ws.on('framereceived', (f) => { bytes += f.payload.length; open.delete(JSON.parse(f.payload).id); });
    ws.on('framesent', (f) => { const o = JSON.parse(f.payload); if (o.method === 'dialogue.transcript') { pages++; open.add(o.id); } });
  });
  await p.goto(`${d.base}/#/d/${id}`);
  await p.reload();
  await shows(p, `line ${count} of ${count}`);
  assert.ok(bytes < 500_000, `${bytes} bytes were transferred`);
  assert.ok((await p.$$('*')).length < 2000);
  await p.focus('.feed');
  const frames = () => p.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r))));
  for (let first = count; first > count - 400; ) {
    const [key, was] = await p.$$eval('.feed-row', (l) => { const at = l.find((e) => e.getBoundingClientRect().top > 120); return [at.dataset.key, at.getBoundingClientRect().top]; });
    const place = () => p.$eval(`[data-key="${key}"]`, (e) => e.getBoundingClientRect().top);
    await p.$eval('.feed', (e) => (e.scrollTop -= 400));
    await frames();
    await until('the pages are there', () => open.size === 0);
    await frames();
    assert.ok(Math.abs((await place()) - was - 400) <= 2, `what was read is at ${await place()}, not at ${was + 400}`);
    const numbers = (await p.$$eval('.feed-row .md', (l) => l.map((e) => e.textContent))).map((t) => Number(/line (\d+)/.exec(t)?.[1])).filter(Boolean);
    for (let i = 1; i < numbers.length; i++) assert.equal(numbers[i], numbers[i - 1] + 1, 'an item is missing or doubled');
    first = Math.min(first, numbers[0] ?? first);
  }
  assert.ok(pages > 3, String(pages));
  assert.ok((await p.$$('*')).length < 2000);
  // To items far away, from a place that the list of their neighbours is too short for, and back to the end.
  const to = async (name) => {
    await p.$eval('.feed', (e) => new Promise((r) => { e.scrollTop = e.scrollHeight / 2; requestAnimationFrame(() => requestAnimationFrame(r)); }));
    await p.goto(`${d.base}/#/d/${id}/i/${name}`);
    await p.waitForSelector(`[data-item="${name}"].found`);
    await until(`item ${name} is in the view`, () => p.$eval(`[data-item="${name}"]`, (e) => {
      const [box, row] = [e.closest('.feed').getBoundingClientRect(), e.getBoundingClientRect()];
      return row.top >= box.top && row.bottom <= box.bottom;
    }));
  };
  for (const n of [200, count - 1, 700]) {
    await to(item(n));
    await shows(p, `line ${n} of ${count}`);
  }
  // At the top there are the subagents, folded, and still few nodes.
  await to('i1.1');
  await until('the calls are there', async () => (await p.$$('.k-agent')).length > 5);
  assert.equal((await p.$$('.nested')).length, 0);
  assert.ok((await p.$$('*')).length < 2000);
  await p.click('.k-agent .fold >> nth=0');
  await p.waitForSelector('.nested .k-agent');
  await p.click('.to-end');
  await shows(p, `line ${count} of ${count}`);
  await end(p, id);
});

test('subagents are inside their call at any depth, with a live last line', { skip: missing }, async () => {
  mkdirSync(join(d.dir, 'gates'), { recursive: true });
  const one = use('Agent', { description: 'outer work', prompt: 'x' });
  const two = use('Agent', { description: 'inner work', prompt: 'x' }, { parent: one.id });
  const three = use('Agent', { description: 'innermost work', prompt: 'x' }, { parent: two.id });
  const read = use('Read', { file_path: '/deep/file.go' }, { parent: three.id });
  const id = talk('deep', '', { flags: ['-gates', join(d.dir, 'gates')] });
  const p = await opened(id);
  await send(p, [one.line, two.line, three.line, read.line, 'gate deep', gives(read.id, 'ok', { parent: three.id }), gives(three.id, 'c', { parent: two.id }), gives(two.id, 'b', { parent: one.id }), gives(one.id, 'the report')].join('; '));
  await until('the folded line shows the last action', async () => (await p.textContent('.doing')).includes('Read /deep/file.go'));
  await p.click('.k-agent > .tool-head .fold');
  await p.click('.nested .k-agent > .tool-head .fold');
  await p.click('.nested .nested .k-agent > .tool-head .fold');
  await p.waitForSelector('.nested .nested .nested .k-read');
  const late = await opened(id); // one that joins now shows the same
  await until('the late page shows it folded', async () => (await late.textContent('.doing')).includes('Read /deep/file.go'));
  writeFileSync(join(d.dir, 'gates', 'deep.open'), '');
  await idle(id);
  for (const q of [p, late]) {
    if (q === late) {
      await q.focus('.feed');
      await q.keyboard.press('Shift+U');
      await q.waitForSelector('.nested .k-agent');
      await q.keyboard.press('Shift+U');
      await q.waitForSelector('.nested .nested .k-agent');
      await q.keyboard.press('Shift+U');
    }
    await q.waitForSelector('.nested .nested .nested .k-read.st-completed');
    await until('all are there', async () => (await q.$$eval('.nested', (l) => l.length)) === 3);
    await shows(q, 'the report');
  }
  await late.context().close();
  await end(p, id);
});

test('permissions: allow, always, deny with a reason, edited input, deny and stop', { skip: missing }, async () => {
  const heard = join(d.dir, 'heard');
  const id = talk('permit', '', { flags: ['-heard', heard] });
  const p = await opened(id);
  const answers = () => readFileSync(heard, 'utf8').split('\n').filter((l) => l.includes('"behavior"')).map((l) => JSON.parse(l).response.response);
  const asked = async (n, press) => {
    await send(p, `ask Bash rm -rf build${n}`);
    await p.waitForSelector(`.ask pre:has-text("build${n}")`);
    await press();
    await until(`answer ${n}`, () => answers().length === n);
    await until('the card closes', async () => (await p.$$('.ask')).length === 0);
    await idle(id);
    return answers()[n - 1];
  };
  assert.equal((await asked(1, () => p.click('.ask .allow'))).behavior, 'allow');
  const always = await asked(2, async () => {
    await p.click('.ask button:has-text("Always")');
    await p.click('.ask-more .primary');
  });
  assert.equal(always.updatedPermissions[0].rules[0].ruleContent, 'rm -rf build2');
  const denied = await asked(3, async () => {
    await p.click('.ask .deny');
    await p.fill('.ask-more input', 'make clean does that');
    await p.click('.ask-more [type=submit]');
  });
  assert.deepEqual([denied.behavior, denied.message], ['deny', 'make clean does that']);
  const edited = await asked(4, async () => {
    await p.click('.ask button:has-text("Edit")');
    await p.fill('.ask-more textarea', 'make clean');
    await p.click('.ask .allow');
  });
  assert.equal(edited.updatedInput.command, 'make clean');
  const stopped = await asked(5, async () => {
    await p.click('.ask .deny');
    await p.click('.ask-more .danger');
  });
  assert.equal(stopped.interrupt, true);
  // By keyboard alone; then the focus is in the composer.
  await asked(6, async () => {
    await p.keyboard.press('Escape');
    await p.keyboard.press('g');
    await p.keyboard.press('r');
    await p.keyboard.press('y');
  });
  await until('the composer has the focus', () => p.evaluate(() => document.activeElement?.id === 'composer'));
  // Answered elsewhere.
  await send(p, 'ask Bash elsewhere');
  await p.waitForSelector('.ask');
  d.trl('dialogue', 'respond', 'permit', 'allow');
  await p.waitForSelector('.toast:has-text("Allowed by cli@")');
  await until('the card closes', async () => (await p.$$('.ask')).length === 0);
  await idle(id);
  await p.click('.tool:has-text("elsewhere") .fold');
  await p.waitForSelector('.decided:has-text("Allowed by cli@")');
  // The page has told the daemon its name, and tells a new one.
  const last = () => d.call('dialogue.transcript', { dialogue_id: id }).requests.at(-1);
  const allow = async (n) => {
    await send(p, `ask Bash named${n}`);
    await p.click('.ask .allow');
    await until('the card closes', async () => (await p.$$('.ask')).length === 0);
    await idle(id);
    return last().answered_by;
  };
  const by = await allow(1);
  assert.equal(by.transport, 'websocket');
  assert.match(by.label, /^Chrome \d+ on Linux$/);
  await p.goto(`${d.base}/#/settings`);
  await p.fill('text=Name of this browser', 'desk of Ada');
  await p.keyboard.press('Tab');
  await p.goto(`${d.base}/#/d/${id}`);
  await p.waitForSelector('#composer');
  assert.equal((await allow(2)).label, 'desk of Ada');
  // Answered elsewhere in the same moment: the page has not heard of it when it is clicked.
  let held;
  await p.routeWebSocket(/\/v1\/ws/, (ws) => {
    const server = ws.connectToServer();
    server.onMessage((m) => (held && JSON.parse(m).id === undefined ? held.push(() => ws.send(m)) : ws.send(m)));
  });
  await p.reload();
  await p.waitForSelector('#composer');
  assert.equal((await allow(3)).label, 'desk of Ada');
  await send(p, 'ask Bash moment');
  await p.waitForSelector('.ask');
  held = [];
  d.trl('dialogue', 'respond', 'permit', 'deny');
  await p.click('.ask .allow');
  await p.waitForSelector('.toast:has-text("Denied by cli@"):has-text("before your answer")');
  for (const f of held.splice(0)) f();
  held = undefined;
  await until('the card closes', async () => (await p.$$('.ask')).length === 0);
  await idle(id);
  assert.ok((await p.$$('.toast:has-text("Denied by cli@")')).length <= 1); // it may have gone
  assert.equal(last().decision, 'deny');
  await end(p, id);
});

test('every answer to a permission is given by keyboard alone, and a held key answers one request', { skip: missing }, async () => {
  const heard = join(d.dir, 'heard-keys');
  const gates = join(d.dir, 'gates-keys');
  mkdirSync(gates);
  const id = talk('keys', '', { flags: ['-heard', heard, '-gates', gates] });
  const p = await opened(id);
  await p.focus('#composer');
  const press = async (...keys) => { for (const k of keys) await (k.startsWith('"') ? p.keyboard.type(k.slice(1)) : p.keyboard.press(k)); };
  const answers = () => readFileSync(heard, 'utf8').split('\n').filter((l) => l.includes('"behavior"')).map((l) => JSON.parse(l).response.response);
  const composer = () => until('the composer has the focus', () => p.evaluate(() => document.activeElement?.id === 'composer'));
  let n = 0;
  const asked = async (...keys) => {
    await press(`"ask Bash rm -rf build${++n}`, 'Enter');
    await p.waitForSelector(`.ask pre:has-text("build${n}")`);
    await press('Escape', 'g', 'r', ...keys);
    await until(`answer ${n}`, () => answers().length === n);
    await until('the card closes', async () => (await p.$$('.ask')).length === 0);
    await composer();
    await idle(id);
    return answers()[n - 1];
  };
  assert.equal((await asked('y')).behavior, 'allow');
  assert.equal((await asked('a', 'Enter')).updatedPermissions[0].rules[0].ruleContent, 'rm -rf build2');
  const { behavior, message, interrupt } = await asked('n', '"make clean does that', 'Enter');
  assert.deepEqual([behavior, message, interrupt ?? false], ['deny', 'make clean does that', false]);
  assert.equal((await asked('e', 'Control+a', '"make clean', 'Tab', 'Tab', 'Tab', 'Enter')).updatedInput.command, 'make clean');
  assert.equal((await asked('n', 'Escape', 'n', 'Tab', 'Tab', 'Enter')).interrupt, true);
  // Two requests at once. The key that allows the first one is held down until the second has the focus.
  const request = (name) => `raw ${JSON.stringify({ type: 'control_request', request_id: name, request: { subtype: 'can_use_tool', tool_name: 'Bash', input: { command: name }, tool_use_id: `toolu_${name}` } })}`;
  await d.post('dialogue.send', { dialogue_id: id, text: `${request('held1')}; ${request('held2')}; gate held` });
  await until('both are there', async () => (await p.$$('.ask')).length === 2);
  await press('Escape', 'g', 'r');
  await p.keyboard.down('y');
  await until('the second has the focus', () => p.evaluate(() => document.querySelectorAll('.ask').length === 1 && document.activeElement?.matches('.ask') && document.activeElement.textContent.includes('held2')));
  for (let i = 0; i < 5; i++) await p.keyboard.down('y'); // as the keyboard repeats it
  await p.keyboard.up('y');
  await press('n', '"not this one', 'Enter');
  await until('both are answered', () => answers().length === n + 2);
  assert.deepEqual(answers().slice(-2).map((a) => [a.behavior, a.message]), [['allow', undefined], ['deny', 'not this one']]);
  // A message is queued and taken back, and the turn is interrupted.
  await composer();
  await press('"say later', 'Enter');
  await p.waitForSelector('.badge[data-message=queued]');
  await tabTo(p, 'Shift+Tab', '.bubble button');
  await press('Enter');
  await p.waitForSelector('.item.user .badge:text-is("cancelled")');
  await press('Escape', '.');
  await p.waitForSelector('dialog[open]');
  await press('Enter');
  await p.waitForSelector('.turn-line:has-text("Turn interrupted")');
  // From the list of all requests, too.
  d.call('dialogue.send', { dialogue_id: id, text: 'ask Bash from the inbox' });
  await until('it asks', () => d.call('dialogue.requests').requests.some((r) => r.dialogue_id === id));
  await p.focus('.feed');
  await press('g', 'i');
  await p.waitForSelector('.inbox .ask');
  await press('g', 'r', 'y');
  await until('it is answered', () => answers().length === n + 3);
  assert.equal(answers().at(-1).behavior, 'allow');
  await end(p, id);
});

test('questions, plans and forms are answered by keyboard alone', { skip: missing }, async () => {
  const heard = join(d.dir, 'heard-questions');
  const gates = join(d.dir, 'gates-questions');
  mkdirSync(gates);
  const id = talk('question', 'question Which colour?', { flags: ['-heard', heard, '-gates', gates] });
  const p = await opened(id);
  await p.waitForSelector('.ask fieldset');
  await p.focus('.feed');
  const press = async (...keys) => { for (const k of keys) await (k.startsWith('"') ? p.keyboard.type(k.slice(1)) : p.keyboard.press(k)); };
  await press('g', 'r', 'Tab', 'Space', 'ArrowDown', 'Enter');
  await idle(id);
  const call = d.call('dialogue.transcript', { dialogue_id: id }).items.find((i) => i.tool);
  assert.match(call.tool.output[0].text, /"Which colour\?":"Blue"/);
  // What the agent hears after it has asked, and the keys.
  let n = 0;
  const asked = async (request, ...keys) => {
    const name = `ask${++n}`;
    await d.post('dialogue.send', { dialogue_id: id, text: `raw ${JSON.stringify({ type: 'control_request', request_id: name, request }).replaceAll(';', '\\u003b')}; gate ${name}` });
    await p.waitForSelector('.ask');
    await press('Escape', 'g', 'r', ...keys);
    const answer = await until('the agent hears it', () => readFileSync(heard, 'utf8').split('\n').filter((l) => l.includes(`"${name}"`) && l.includes('control_response')).map((l) => JSON.parse(l).response.response)[0]);
    writeFileSync(join(gates, `${name}.open`), '');
    await until('the card closes', async () => (await p.$$('.ask')).length === 0);
    await until('the composer has the focus', () => p.evaluate(() => document.activeElement?.id === 'composer'));
    await idle(id);
    return answer;
  };
  const tool = (name, input) => ({ subtype: 'can_use_tool', tool_name: name, input, tool_use_id: `toolu_ask${n}` });
  const options = (...l) => l.map((label) => ({ label, description: '' }));
  const several = await asked(tool('AskUserQuestion', { questions: [{ question: 'Which parts?', header: 'Parts', multiSelect: true, options: options('A', 'B', 'C') }, { question: 'Which name?', header: 'Name', options: options('x', 'y') }] }),
    'Tab', 'Space', 'Tab', 'Tab', 'Space', 'Tab', '"D', 'Tab', 'Tab', '"free words', 'Enter');
  assert.deepEqual(several.updatedInput.answers, { 'Which parts?': 'A, C, D', 'Which name?': 'free words' });
  assert.equal((await asked(tool('ExitPlanMode', { plan: '# The plan\n\n1. first' }), 'y')).behavior, 'allow');
  const kept = await asked(tool('ExitPlanMode', { plan: '# The plan\n\n1. first' }), 'n', '"tests first', 'Enter');
  assert.deepEqual([kept.behavior, kept.message], ['deny', 'tests first']);
  const form = { subtype: 'elicitation', mcp_server_name: 'db', message: 'Which database?', requested_schema: { type: 'object', required: ['host', 'kind'], properties: {
    host: { type: 'string', title: 'Host' }, port: { type: 'integer' }, secure: { type: 'boolean', description: 'with TLS' }, kind: { type: 'string', enum: ['main', 'copy'] }, note: { type: 'string' }, more: { type: 'object' } } } };
  const filled = await asked(form, 'Tab', '"box', 'Tab', '"5432', 'Tab', 'Space', 'Tab', 'ArrowDown', 'ArrowDown', 'Tab', 'Tab', '"{"a":1}', 'Tab', 'Tab', 'Enter');
  assert.deepEqual(filled, { action: 'accept', content: { host: 'box', port: 5432, secure: true, kind: 'copy', more: { a: 1 } } });
  // A schema with words that are none, and one with more fields than a person fills in one by one.
  const schema = (properties) => ({ ...form, requested_schema: { type: 'object', properties } });
  const odd = await asked(schema({ name: { type: 'string', title: { toString: 1 }, description: 7, default: null }, parts: { type: 'array', items: { type: 'string', oneOf: [{ const: 'a', title: 1 }, { const: 'b', title: [] }] } } }), 'Tab', '"box', ...Array(4).fill('Tab'), 'Enter');
  assert.deepEqual(odd, { action: 'accept', content: { name: 'box' } });
  const many = await asked(schema(Object.fromEntries(Array.from({ length: 301 }, (_, i) => [`f${i}`, { type: 'integer', ...(i === 0 ? { default: 5 } : {}) }]))), 'Tab', 'Tab', 'Control+Home', 'ArrowRight', '""f300":6,', 'Tab', 'Tab', 'Enter');
  assert.deepEqual(many, { action: 'accept', content: { f300: 6, f0: 5 } });
  const declined = await asked(form, 'Shift+Tab', 'Escape', 'g', 'r', ...Array(7).fill('Tab'), 'Enter');
  assert.equal(declined.action, 'decline');
  await end(p, id);
});

test('the inbox has the requests of all dialogues, with a badge and a notification', { skip: missing }, async () => {
  const context = await b.newContext({ viewport: { width: 1280, height: 800 }, permissions: ['notifications'] });
  await context.addInitScript(() => {
    window.told = [];
    window.Notification = class { static permission = 'granted'; static requestPermission() { return Promise.resolve('granted'); } constructor(title, o) { window.told.push(this); Object.assign(this, { title, ...o, open: true }); } close() { this.open = false; } };
  });
  const p = await page(b, d, { context });
  await p.goto(d.base + '/#/inbox');
  await p.waitForSelector('text=Nothing is waiting for you');
  await p.click('text=Notify me');
  await p.waitForSelector('text=Notifications are on');
  await p.evaluate(() => Object.defineProperty(document, 'hidden', { value: true, configurable: true }));
  const one = talk('one', 'ask Bash first');
  await p.waitForSelector('.ask:has-text("one")');
  const two = talk('two', 'ask Bash second');
  await p.waitForSelector('.ask:has-text("two")');
  await until('the title has the number', async () => (await p.title()).startsWith('(2) '));
  await until('the badge has the number', async () => (await p.textContent('nav .asks >> nth=0')) === '2 requests waiting');
  await until('both are notified', async () => (await p.evaluate(() => window.told.length)) === 2);
  assert.deepEqual(await p.evaluate(() => window.told.map((n) => [n.title, n.body])), [['one asks', 'Bash: first'], ['two asks', 'Bash: second']]);
  d.call('dialogue.respond', { dialogue_id: one, request_id: d.call('dialogue.requests').requests[0].request.request_id, decision: 'allow' });
  await until('it is gone', async () => (await p.$$('.ask')).length === 1);
  await until('its notification is closed', () => p.evaluate(() => !window.told[0].open));
  await p.click('.ask .allow');
  await p.waitForSelector('text=Nothing is waiting for you');
  await until('the title has no number', async () => !(await p.title()).startsWith('('));
  d.call('dialogue.terminate', { dialogue_id: two, force: true });
  await end(p, one);
});

test('messages are queued, a draft survives a reload, and interrupt ends the turn', { skip: missing }, async () => {
  const id = talk('queue', 'hang');
  const p = await opened(id);
  await p.waitForSelector('button:text-is("Interrupt")');
  await send(p, 'say second');
  await p.waitForSelector('.item.user .badge[data-message=queued]');
  await p.fill('#composer', 'a draft');
  await p.reload();
  await until('the draft is there', async () => (await p.inputValue('#composer')) === 'a draft');
  // A page that is loaded anew knows what waits, and can take it back.
  await p.waitForSelector('.item.user:has-text("say second") .badge[data-message=queued]');
  d.call('dialogue.send', { dialogue_id: id, text: 'say third' });
  await p.waitForSelector('.item.user:has-text("say third") .badge[data-message=queued]');
  await p.reload();
  await p.click('.item.user:has-text("say third") button:text-is("Take back")');
  await p.waitForSelector('.item.user:has-text("say third") .badge:text-is("cancelled")');
  await p.reload();
  await p.waitForSelector('.item.user:has-text("say third") .badge:text-is("cancelled")');
  assert.deepEqual(d.call('dialogue.transcript', { dialogue_id: id }).items.map((i) => i.message), ['started', 'queued', 'cancelled']);
  await p.click('button:text-is("Interrupt")');
  await p.waitForSelector('.turn-line:has-text("Turn interrupted")');
  await shows(p, 'second');
  await idle(id);
  await until('nothing is queued', async () => (await p.$('.badge[data-message]')) === null);
  assert.deepEqual(d.call('dialogue.transcript', { dialogue_id: id }).items.filter((i) => i.message).map((i) => i.message), ['done', 'done', 'cancelled']);
  await p.fill('#composer', '/comp');
  await p.waitForSelector('[role=option]:has-text("/compact")');
  await p.keyboard.press('Tab');
  await until('the command is completed', async () => (await p.inputValue('#composer')) === '/compact ');
  await p.selectOption('.chip-select:has(option[value=plan]) select', 'plan');
  await until('the mode is set', () => info(id).permission_mode === 'plan');
  await end(p, id);
});

test('lost connections and a killed daemon: nothing is missing, nothing is double', { skip: missing }, async () => {
  const id = talk('cuts', 'say zero');
  const between = await cutter(d);
  const p = await opened(id, { base: between.base });
  for (let i = 1; i <= 6; i++) {
    await send(p, `say number${i}.`);
    if (i % 2) between.cut();
    if (i === 4) {
      await d.kill();
      await d.run();
    }
    await shows(p, `You`);
  }
  await shows(p, 'number6.');
  await idle(id);
  const texts = await until('all are there', async () => {
    const l = await p.$$eval('.item.agent .md', (x) => x.map((e) => e.textContent));
    return l.length === 7 && l;
  });
  assert.deepEqual([...texts].sort(), ['number1.', 'number2.', 'number3.', 'number4.', 'number5.', 'number6.', 'zero']);
  await until('all messages are there', async () => (await p.$$('.item.user')).length === 7);
  await p.waitForFunction(() => !document.querySelector('.banner'));
  await end(p, id);
  between.close();
});

test('an agent that died is resumed in the page', { skip: missing }, async () => {
  const id = talk('die', 'stderr the last words; exit 3');
  const p = await opened(id);
  await p.waitForSelector('.end-card.bad-card:has-text("exit status 3")');
  await shows(p, 'the last words', '.end-card');
  await p.click('.end-card .primary');
  await p.fill('dialog textarea >> nth=0', 'say back again');
  await p.click('dialog button[type=submit]');
  await shows(p, 'back again');
  await until('the card is gone', async () => (await p.$('.end-card')) === null);
  await end(p, id);
});

test('every trouble has the one action that helps', { skip: missing }, async () => {
  const id = talk('trouble', 'say fine');
  await idle(id);
  const p = await page(b, d);
  // The daemon's answers are changed on the way: a place that cannot be reached takes minutes.
  let fault = {};
  const calls = [];
  await p.routeWebSocket(/\/v1\/ws/, (ws) => {
    const server = ws.connectToServer();
    ws.onMessage((m) => { calls.push(JSON.parse(m)); server.send(m); });
    server.onMessage((m) => {
      const o = JSON.parse(m);
      const change = (x) => (x?.dialogue_id === id && x.state ? Object.assign(x, fault, { seq: x.seq + 1 }) : x);
      if (o.data?.dialogues) o.data.dialogues.forEach(change);
      else change(o.data);
      ws.send(JSON.stringify(o));
    });
  });
  const see = async (f, reason) => {
    fault = f;
    await p.goto(`${d.base}/#/d/${id}`);
    await p.reload();
    await p.waitForSelector(`.trouble[data-reason=${reason}]`);
    return { text: await p.textContent('.trouble'), buttons: await p.$$eval('.trouble button', (l) => l.map((e) => e.textContent)) };
  };
  const error = (reason, retry) => ({ state: 'error', remote: 'grpcs://box:7331', error: { code: 'reconnect_failed', reason, retry, message: 'connection refused' } });
  const looking = await see({ remote: 'grpcs://box:7331', lost_at: new Date().toISOString() }, 'looking');
  assert.match(looking.text, /is trying to reconnect: 0:\d\d of 2:00/);
  assert.deepEqual(looking.buttons, []);
  const away = await see(error('unreachable', true), 'unreachable');
  assert.match(away.text, /Cannot reach grpcs:\/\/box:7331: connection refused/);
  assert.deepEqual(away.buttons, ['Retry']);
  await tabTo(p, 'Tab', '.trouble button');
  await p.keyboard.press('Enter');
  await until('the page calls dialogue.retry', () => calls.some((c) => c.method === 'dialogue.retry'));
  assert.deepEqual((await see(error('auth_rejected', true), 'auth_rejected')).buttons, ['Retry']);
  assert.deepEqual((await see(error('session_gone', false), 'session_gone')).buttons, ['Resume…']);
  assert.deepEqual((await see({ state: 'error', error: { code: 'record_failed', reason: 'disk', retry: false, message: 'no space left on device' } }, 'disk')).buttons, []);
  await p.context().close();
  d.call('dialogue.terminate', { dialogue_id: id, force: true });
});

test('the Stream Inspector has every line, its events, and the way to the item and back', { skip: missing }, async () => {
  const id = talk('raw', 'say hello there; unknown-type; garbage; tool Bash ls');
  await idle(id);
  const p = await page(b, d);
  await p.setViewportSize({ width: 1280, height: 3000 });
  await p.goto(`${d.base}/#/d/${id}/raw`);
  await p.waitForSelector('.raw-lines .rows .tr');
  const want = d.call('dialogue.lines', { dialogue_id: id, limit: 1000 });
  const got = await until('all lines are there', async () => {
    const l = await p.$$eval('.raw-lines .rows .tr', (x) => x.map((e) => [e.dataset.line, Number(e.children[3].textContent)]));
    return l.length === want.lines.length && l;
  });
  assert.deepEqual(got, want.lines.map((l) => [l.stream + l.offset, l.bytes]));
  assert.equal(got.filter(([k]) => k.startsWith('stdout')).reduce((n, [, x]) => n + x, 0), want.total);
  await until('odd lines are marked', async () => (await p.$$eval('.raw-lines .odd', (l) => l.length)) === 2);
  await p.click('button:has-text("Not understood")');
  await until('only these are left', async () => (await p.$$('.raw-lines .rows .tr')).length === 2);
  await p.click('button:has-text("Not understood")');
  const source = want.lines.find((l) => l.events.some((e) => e.type === 'item' && e.item_id === 'i1.1'));
  await p.click(`[data-line="${source.stream}${source.offset}"]`);
  await p.click('.detail a:has-text("show in the transcript") >> nth=0');
  await p.waitForSelector('[data-item="i1.1"].found');
  await p.hover('[data-item="i1.1"]');
  await p.click('[data-item="i1.1"] .inspect');
  await p.waitForSelector(`.raw-lines .at[data-line="${source.stream}${source.offset}"]`);
  // Of many lines only the last page is read.
  d.call('dialogue.send', { dialogue_id: id, text: 'flood 32MiB 32KiB; say the last line' });
  await idle(id);
  let received = 0;
  p.on('websocket', (ws) => ws.on('framereceived', (f) => (received += f.payload.length)));
  await p.setViewportSize({ width: 1280, height: 800 });
  await p.goto(`${d.base}/#/d/${id}/raw`);
  await p.reload();
  await p.waitForSelector('.raw-lines .tr:has-text("the last line")');
  await until('it knows how much there is', async () => / lines loaded · 34 MB from the agent/.test(await p.textContent('.foot')));
  assert.match(await p.textContent('.foot'), /^200 lines/);
  assert.ok(received < 2_000_000, `${received} bytes were transferred`);
  assert.ok((await p.$$('*')).length < 2000);
  await end(p, id);
});

test('events and health show what there is', { skip: missing }, async () => {
  const id = talk('seen', 'ask Bash ls');
  const p = await page(b, d);
  await p.goto(d.base + '/#/events?q=seen');
  await p.waitForSelector('.timeline .tr:has-text("the agent asks")');
  d.call('session.create', { name: 'seen-too', shell: 'none' });
  await p.waitForSelector('.timeline .tr:has-text("seen-too")');
  await p.focus('.timeline');
  await p.keyboard.press('g');
  await p.keyboard.press('h');
  await until('it counts the dialogue', async () => /Dialogues\d+1 waiting for you/.test(await p.textContent('.cards')));
  await p.waitForSelector('td a:text-is("seen-too")');
  await end(p, id);
});

/** Texts that must stay texts. */
const hostile = [
  '<script>hacked=1</script>', '<img src=x onerror=hacked=1>', '<img src="//evil.example/x.png">', '<svg/onload=hacked=1>', '<svg><script>hacked=1</script></svg>', '<iframe src="//evil.example"></iframe>', '<iframe srcdoc="<script>parent.hacked=1</script>">',
  '<object data="//evil.example"></object>', '<embed src="//evil.example">', '<link rel=stylesheet href="//evil.example/x.css">', '<style>*{display:none}</style>', '<style>@import "//evil.example/x.css"</style>', '<base href="//evil.example/">', '<meta http-equiv=refresh content="0,url=//evil.example">',
  '<form action="//evil.example"><button>x</button></form>', '<a href="javascript:hacked=1">x</a>', '<body onload=hacked=1>', '<details open ontoggle=hacked=1>', '<video src="//evil.example" onerror=hacked=1>', '<audio src="//evil.example">', '<math><mi xlink:href="javascript:hacked=1">x</mi></math>',
  '<template><script>hacked=1</script></template>', '<noscript><img src=x onerror=hacked=1></noscript>', '"><script>hacked=1</script>', "'><img src=x onerror=hacked=1>", '</textarea><script>hacked=1</script>', '</title><script>hacked=1</script>', '<!--><script>hacked=1</script>-->', '<![CDATA[<script>hacked=1</script>]]>', '<scr<script>ipt>hacked=1</script>',
  '[x](javascript:hacked=1)', '[x](JaVaScRiPt:hacked=1)', '[x](java\tscript:hacked=1)', '[x](data:text/html,<script>hacked=1</script>)', '[x](vbscript:hacked=1)', '[x](file:///etc/passwd)', '[x](blob:http://evil.example/1)', '[x](&#106;avascript:hacked=1)', '<javascript:hacked=1>', '![x](//evil.example/a.png)',
  '![x](http://evil.example/a.png)', '![x](javascript:hacked=1)', '![x](data:image/svg+xml,<svg onload=hacked=1>)', '[x]: javascript:hacked=1\n\n[x]', '[![x](http://evil.example/b.png)](http://evil.example)', '[x](http://evil.example "onmouseover=hacked=1")', '`<script>hacked=1</script>`', '```html\n<script>hacked=1</script>\n```', '```<img src=x onerror=hacked=1>\nx\n```',
  '| <img src=x onerror=hacked=1> |\n|---|\n| <script>hacked=1</script> |', '> <script>hacked=1</script>', '- [ ] <img src=x onerror=hacked=1>', '{{constructor.constructor("hacked=1")()}}', '${hacked=1}', '\u202egnp.exe', '\u2066\u2069\u200f', '\u001b]8,,http://evil.example\u0007x\u001b]8,,\u0007', '\u001b[31mred<script>hacked=1</script>', '>'.repeat(3000), '*'.repeat(5000) + '['.repeat(5000),
];

test('60 hostile texts, as agent text, tool output, names and inputs, run nothing and load nothing', { skip: missing }, async () => {
  assert.ok(hostile.length >= 60, String(hostile.length));
  const clean = hostile.map((h) => h.replaceAll(';', ','));
  const id = talk('evil', '', { tags: clean.filter((h) => h.length < 60 && !/[\s,]/.test(h)).filter((t) => { try { return d.call('session.create', { shell: 'none', tags: [t] }); } catch { return false; } }) });
  const p = await page(b, d);
  const dialogs = [];
  p.on('dialog', (x) => { dialogs.push(x.message()); void x.dismiss(); });
  p.on('popup', (x) => dialogs.push(x.url()));
  await p.goto(`${d.base}/#/d/${id}`);
  await p.waitForSelector('#composer');
  for (let i = 0; i < clean.length; i += 10) {
    const part = clean.slice(i, i + 10);
    const script = part.flatMap((h) => {
      const t = use(h.slice(0, 60), { command: h, file_path: h, content: h, description: h });
      const e = use('Edit', { file_path: h, old_string: h, new_string: h + '!' });
      return [says(h), t.line, gives(t.id, h), e.line, gives(e.id, h)];
    });
    await d.post('dialogue.send', { dialogue_id: id, text: [...script, line({ type: 'assistant', parent_tool_use_id: null, message: { id: `t${i}`, role: 'assistant', model: 'm', content: [{ type: 'thinking', thinking: part.join('\n\n') }] } })].join('; ') });
    await idle(id);
    await p.focus('.feed');
    await until('the end is shown', async () => (await p.$eval('.feed', (e) => e.scrollHeight - e.scrollTop - e.clientHeight)) < 3);
    await p.keyboard.press('Shift+U');
    for (let up = 0; up < 12; up++) await p.$eval('.feed', (e) => new Promise((r) => { e.scrollTop -= e.clientHeight; requestAnimationFrame(() => requestAnimationFrame(r)); }));
    await p.keyboard.press('End');
  }
  d.call('dialogue.send', { dialogue_id: id, text: `ask ${clean[1].replaceAll(' ', '')} ${clean[0]}` });
  await p.waitForSelector('.ask');
  await until('the request is there', async () => (await p.textContent('.ask')).includes(clean[0]));
  await p.goto(`${d.base}/#/inbox`);
  await p.waitForSelector('.ask');
  await p.goto(`${d.base}/#/d`);
  await p.waitForSelector('.talks .tr');
  await p.goto(`${d.base}/#/d/${id}/raw`);
  await p.waitForSelector('.raw-lines .rows .tr');
  await p.click('.raw-lines .rows .tr >> nth=2');
  await p.goto(`${d.base}/#/events`);
  await p.waitForSelector('.timeline .tr');
  // Every link asks first, and leads nowhere but to http, https and mail.
  await p.goto(`${d.base}/#/d/${id}`);
  await p.waitForSelector('.ask');
  for (const h of await p.$$eval('.feed a.link', (l) => l.map((e) => e.href))) assert.match(h, /^(https?|mailto):/);
  assert.equal(await p.evaluate(() => window.hacked), undefined);
  assert.deepEqual(await p.$$eval('.feed script, .feed iframe, .feed object, .feed embed, .feed style, .feed form, .feed img', (l) => l.map((e) => e.outerHTML)), []);
  assert.deepEqual(dialogs, []);
  await end(p, id);
});

test('code has colours, a change is shown side by side and quoted', { skip: missing }, async () => {
  const code = ['package main // not "this"', 'func f() int { return 42 } /* and', 'not this */', "var s = `a 'b' // c`", 'const x = "say \\" </code><b>"'].join('\n');
  const edit = use('Edit', { file_path: '/src/conn.go', old_string: 'one\nreturn nil\nthree\nfour', new_string: 'one\nreturn errGone\nand more\nthree\nfour' });
  const id = talk('code', [says('```go\n' + code + '\n```\n\n```nosuch\nfunc plain "x"\n```'), edit.line, gives(edit.id, 'ok')].join('; '));
  await idle(id);
  const p = await opened(id);
  const colours = (kind) => p.$$eval('.md .hl-' + kind, (l) => l.map((e) => e.textContent));
  await p.waitForSelector('.md .hl-k');
  assert.deepEqual(await colours('k'), ['package', 'func', 'int', 'return', 'var', 'const']);
  assert.deepEqual(await colours('c'), ['// not "this"', '/* and\nnot this */']);
  assert.deepEqual(await colours('s'), ["`a 'b' // c`", '"say \\" </code><b>"']);
  assert.deepEqual(await colours('n'), ['42']);
  assert.deepEqual(await p.$$eval('.md pre code', (l) => l.map((e) => e.textContent)), [code, 'func plain "x"']);
  // The change: below each other, beside each other, and the same after a reload.
  const rows = () => p.$$eval('.diff .diff-pair', (l) => l.map((r) => [...r.children].map((h) => h.querySelector('.code-text')?.textContent ?? null)));
  assert.deepEqual(await p.$$eval('.diff .diff-line', (l) => l.map((e) => e.textContent)), [' one', '−return nil', '+return errGone', '+and more', ' three', ' four']);
  await p.click('.diff-head button:text-is("Side by side")');
  const want = [['one', 'one'], ['return nil', 'return errGone'], [null, 'and more'], ['three', 'three'], ['four', 'four']];
  assert.deepEqual(await rows(), want);
  await p.reload();
  await p.waitForSelector('.diff .diff-pair');
  assert.deepEqual(await rows(), want);
  await p.fill('#composer', 'Why this?');
  await p.click('.diff-head button:text-is("Quote")');
  assert.equal(await p.inputValue('#composer'), 'Why this?\n/src/conn.go\n> - return nil\n> + return errGone\n> + and more\n');
  await until('the composer has the focus', () => p.evaluate(() => document.activeElement?.id === 'composer'));
  await end(p, id);
});

test('a line of 1 MB is shown in part, and whole when it is wanted', { skip: missing }, async () => {
  const id = talk('wide', 'say before; line 1MiB; say after');
  await idle(id);
  const p = await opened(id);
  await shows(p, 'after');
  const longest = () => p.$$eval('.feed .item.agent', (l) => Math.max(...l.map((e) => e.textContent.length)));
  assert.ok((await longest()) < 20_000, String(await longest()));
  assert.ok((await p.$$('*')).length < 2000);
  await p.click('.feed .item.agent button:has-text("Show all")');
  await until('all of it is there', async () => (await longest()) > 1_000_000);
  assert.ok((await p.$$('*')).length < 2000);
  assert.ok(await p.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page scrolls sideways');
  await end(p, id);
});

test('an item of a task list has its box on its line', { skip: missing }, async () => {
  const id = talk('tasks', 'say - [x] found **it**\n- [ ] fixed it\n\nLoose:\n\n1. [x] one\n\n2. [ ] two');
  const p = await page(b, d, { to: 'tasks' });
  await p.waitForSelector('li.task >> nth=3');
  assert.deepEqual(await p.$$eval('li.task', (l) => l.map((e) => e.innerText.trim())), ['☑ found it', '☐ fixed it', '☑ one', '☐ two']);
  await p.context().close();
  d.call('dialogue.terminate', { dialogue_id: id, force: true });
});

test('axe finds nothing in the pages of dialogues, and no page scrolls sideways', { skip: missing }, async () => {
  const axe = readFileSync(root + '/web/node_modules/axe-core/axe.min.js', 'utf8');
  const edit = use('Edit', { file_path: '/x.go', old_string: 'a\nb', new_string: 'a\nc' });
  const sub = use('Agent', { description: 'work', prompt: 'x' });
  const id = talk('axe', ['say # Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```go\nfunc f() { return "x", 1 } // and\n```\n\n- [x] done\n- [ ] left', 'think hm', 'tool Bash ls', edit.line, gives(edit.id, 'ok'), sub.line, says('deep', sub.id), gives(sub.id, 'r'), 'ask Bash ls'].join('; '));
  const asks = talk('axe2', 'question Which?');
  const over = talk('axe3', 'exit 2');
  const fills = talk('axe4', `raw ${JSON.stringify({ type: 'control_request', request_id: 'f', request: { subtype: 'elicitation', mcp_server_name: 'db', message: 'Which?', requested_schema: { properties: { a: { type: 'string' }, b: { type: 'boolean' }, c: { enum: ['x', 'y'] }, d: { type: 'array', items: { enum: ['x', 'y'] } }, e: {} } } } })}; hang`);
  await until('they ask', () => d.call('dialogue.requests').requests.length >= 3);
  await until('it has ended', () => info(over).state === 'ended');
  const routes = { d: '.tr', ['d/' + id]: '.ask', ['d/' + asks]: 'fieldset', ['d/' + fills]: '.field', ['d/' + over]: '.end-card', [`d/${id}/raw`]: '.raw-lines .tr', inbox: '.ask', events: '.timeline .tr', daemon: '.stat' };
  const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
  for (const o of [{ colorScheme: 'light' }, { colorScheme: 'dark' }, { colorScheme: 'light', ...phone }, { colorScheme: 'dark', ...phone }]) {
    const p = await page(b, d, { ...o, bypassCSP: true });
    for (const [r, ready] of Object.entries(routes)) {
      await p.goto(`${d.base}/#/${r}`);
      await p.waitForSelector(ready);
      if (r === 'd/' + id) {
        await p.focus('.feed');
        await p.keyboard.press('Shift+U');
        await p.waitForSelector('.nested .item');
      }
      await p.evaluate(axe);
      const found = await p.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }));
      assert.deepEqual(found.violations.map((v) => `${r}: ${v.id}: ${v.nodes.map((n) => n.html + (n.any[0]?.message ?? '')).join(' | ').slice(0, 500)}`), []);
      assert.ok(await p.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${r}: scrolls sideways`);
      if (o.isMobile && r === 'd/' + id) {
        const [deny, allow] = await p.$$eval('.ask .deny, .ask .allow', (l) => l.map((e) => e.getBoundingClientRect().toJSON()));
        assert.ok(deny.height >= 44 && allow.height >= 44, 'the buttons are too small');
        assert.ok(allow.left - deny.right >= 80 || allow.top - deny.bottom >= 80, 'the buttons are too near to each other');
      }
    }
    assert.deepEqual(p.faults, []);
    await p.context().close();
  }
  for (const x of [id, asks, fills]) d.call('dialogue.terminate', { dialogue_id: x, force: true });
});

// The last one: its daemon gives up soon, which no other test may depend on.
test('a dialogue on another daemon: looking for it, Retry, and nothing is missing or double', { skip: missing }, async () => {
  const port = await freePort();
  const far = await Daemon.start('--grpc', `127.0.0.1:${port}`);
  try {
    await d.kill();
    d.env.TRL_DIALOGUE_RECONNECT_S = '5';
    await d.run();
    const file = join(d.dir, 'far-token');
    writeFileSync(file, far.token() + '\n', { mode: 0o600 });
    const id = talk('far', 'say one', { runtime: 'remote', remote: { address: `grpc://127.0.0.1:${port}`, token_file: file } });
    const p = await page(b, d);
    const seqs = [];
    p.on('websocket', (ws) => {
      const streams = new Map();
      ws.on('framesent', (f) => { const o = JSON.parse(f.payload); if (o.method === 'dialogue.events') streams.set(o.id, ''); });
      ws.on('framereceived', (f) => {
        const o = JSON.parse(f.payload);
        if (streams.has(o.id)) streams.set(o.id, o.data?.stream_id);
        else if (o.stream_id && [...streams.values()].includes(o.stream_id) && o.seq) seqs.push(o.seq);
      });
    });
    await p.goto(`${d.base}/#/d/${id}`);
    await p.reload();
    await p.waitForSelector('.feed');
    await shows(p, 'one');
    const answered = (text) => p.waitForSelector(`.item.agent .md :text-is("${text}")`); // not the message that asks for it
    const trouble = (reason) => p.waitForSelector(`.trouble[data-reason=${reason}]`);
    const fine = () => until('the banner goes', async () => (await p.$('.trouble')) === null);
    const buttons = () => p.$$eval('.trouble button', (l) => l.map((e) => e.textContent));
    await far.kill();
    await trouble('looking');
    await trouble('unreachable');
    assert.deepEqual(await buttons(), ['Retry']);
    await p.click('.trouble button');
    await p.waitForSelector('.trouble:has-text("without success")');
    await far.run();
    await p.click('.trouble button');
    await fine();
    await send(p, 'say two');
    await answered('two');
    await idle(id);
    // Other credentials: the dialogue says so, and goes on with the right ones.
    await far.kill();
    writeFileSync(file, 'wrong\n');
    await far.run();
    await trouble('auth_rejected');
    assert.deepEqual(await buttons(), ['Retry']);
    writeFileSync(file, far.token() + '\n');
    await p.click('.trouble button');
    await fine();
    await send(p, 'say three');
    await answered('three');
    await idle(id);
    assert.deepEqual(await p.$$eval('.item.agent .md', (l) => l.map((e) => e.textContent)), ['one', 'two', 'three']);
    const sorted = [...new Set(seqs)];
    assert.deepEqual(seqs, sorted, 'an event came twice');
    for (let i = 1; i < sorted.length; i++) assert.equal(sorted[i], sorted[i - 1] + 1, 'an event is missing');
    assert.ok(sorted.length > 10, String(sorted.length));
    await end(p, id);
  } finally {
    await far.stop();
  }
});
