// Recordings: the list, and the player beside the screens that trl export makes of the same file.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { browser, Daemon, missing, page, root, screen, until } from './harness.mjs';

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

// Colours, wide characters, cursor moves, the other screen and scrolling, with pauses between them.
const program = `printf 'é 中文 😀 \\033[31mred\\033[0m\\n'; sleep 0.3; seq 1 40; sleep 0.3; printf '\\033[5;10Hhere\\033[K'; sleep 0.3
printf '\\033[?1049h\\033[2J\\033[Hother screen'; sleep 0.3; printf '\\033[?1049lback\\n'; read -r line; printf 'wide %s\\n' "$line"; sleep 0.3; printf '\\033[2J\\033[Hlast'`;

const ended = (id) => until('it has ended', () => d.call('session.info', { session_id: id }).state === 'terminated');

/** Records the program, with a new size on the way, and returns the id of its recording. */
async function record(name) {
  const id = d.call('session.create', { name, kind: 'terminal', command: ['sh', '-c', program], record: true }).session_id;
  await until('it is back', () => d.call('session.screen', { session_id: id }).text.includes('back'));
  d.call('session.resize', { session_id: id, cols: 60, rows: 20 });
  d.call('session.input', { session_id: id, text: 'line', keys: ['enter'] });
  await ended(id);
  return id;
}

/** The events of an asciicast of version 3, with the time since the beginning, and its lines. */
function read(id) {
  const lines = d.call('recording.read', { recording_id: id }).data.trim().split('\n');
  let at = 0;
  return { header: lines[0], events: lines.slice(1).filter((line) => line[0] !== '#').map((line) => ({ line, at: (at += JSON.parse(line)[0]), code: JSON.parse(line)[1] })) };
}

/** The screen that the Go side makes of the recording at a time. */
function truthAt({ header, events }, at) {
  const file = join(d.dir, 'cut.cast');
  writeFileSync(file, [header, ...events.filter((e) => e.at <= at).map((e) => e.line)].join('\n') + '\n');
  return d.trl('export', file, '--text').split('\n').map((r) => r.trimEnd()).join('\n').trimEnd();
}

const opened = async (id, options = {}) => {
  const p = await page(b, d, options);
  await p.goto(`${d.base}/#/r/${id}${options.query ?? ''}`);
  await p.waitForSelector('.screen[data-ready=yes]');
  return p;
};
const settled = (p) => until('the player shows its place', () => p.evaluate(() => document.querySelector('.screen').trlPlayer.settled));
const shown = async (p) => (await screen(p)).rows.join('\n').trimEnd();
const place = (p) => p.evaluate(() => document.querySelector('.screen').trlPlayer.at.value);
const end = async (p) => {
  assert.deepEqual(p.faults, []);
  assert.deepEqual(await p.evaluate(() => window.violations), []);
  assert.deepEqual(p.foreign, []);
  await p.context().close();
};

test('a recording is found, played to its end, and every place shows what the Go side shows', { skip: missing }, async () => {
  const id = await record('film');
  const cast = read(id);
  const p = await page(b, d);
  await p.keyboard.press('g');
  await p.keyboard.press('p');
  await p.click('.recordings a:has-text("film")');
  await p.waitForSelector('.screen[data-ready=yes]');
  await p.selectOption('[aria-label=Speed]', '16');
  await p.waitForSelector('button[aria-label=Play]'); // at the end it stops by itself
  await settled(p);
  assert.equal(await place(p), cast.events.at(-1).at);
  assert.match(await p.textContent('.player .head'), /60×20 · ended with status 0/);
  const last = cast.events.at(-1).at;
  // Between the events, and exactly at them; there and back.
  const times = [last, 0, ...Array.from({ length: 10 }, (_, i) => (last * ((i * 7 + 3) % 11)) / 11), ...cast.events.filter((_, i) => i % 3 === 0).map((e) => e.at), last];
  const seen = new Set();
  for (const t of times) {
    await p.evaluate((at) => document.querySelector('.screen').trlPlayer.seek(at), t);
    await settled(p);
    seen.add(await shown(p));
    assert.equal(await shown(p), truthAt(cast, t), `at ${t} s`);
  }
  assert.ok(seen.size >= 6, `${seen.size} different screens were seen`);
  await end(p);
});

test('the keyboard seeks, pauses and changes the speed; the place is in the address', { skip: missing }, async () => {
  const id = await record('keys');
  const p = await opened(id, { query: '?t=0.4' });
  await settled(p);
  assert.equal(await place(p), 0.4);
  assert.equal(await p.getAttribute('.controls .primary', 'aria-label'), 'Play'); // an address with a place does not run
  await p.focus('[aria-label="Position in the recording"]');
  await p.keyboard.press('End');
  const last = await place(p);
  assert.ok(last > 1, String(last));
  await p.keyboard.press('5');
  assert.equal((await place(p)).toFixed(6), (last / 2).toFixed(6));
  assert.match(await p.evaluate(() => location.hash), new RegExp(`\\?t=${(last / 2).toFixed(3)}$`));
  await p.keyboard.press('Home');
  assert.equal(await place(p), 0);
  await p.keyboard.press('>');
  assert.equal(await p.inputValue('[aria-label=Speed]'), '2');
  await p.keyboard.press('<');
  assert.equal(await p.inputValue('[aria-label=Speed]'), '1');
  await p.keyboard.press('Space');
  await p.waitForSelector('button[aria-label=Pause]');
  await until('it moves', async () => (await place(p)) > 0);
  await p.keyboard.press('Space');
  await p.waitForSelector('button[aria-label=Play]');
  // The keys work after a click into the terminal, too.
  await p.click('.screen');
  await p.keyboard.press('End');
  await until('it is at the end', async () => (await place(p)) === last);
  const [file] = await Promise.all([p.waitForEvent('download'), p.click('text=Download')]);
  assert.equal(readFileSync(await file.path(), 'utf8'), d.call('recording.read', { recording_id: id }).data);
  await end(p);
});

test('markers are places to jump to, and a long pause is as short as wanted', { skip: missing }, async () => {
  const id = await record('marked');
  // Two markers, as other programs write them, and an hour in which nothing happens.
  const dir = join(d.dir, 'state', 'recordings');
  const file = join(dir, readdirSync(dir).find((f) => f.includes(id)));
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  const events = lines.slice(1).filter((l) => l[0] !== '#');
  const half = events.length >> 1;
  writeFileSync(file, [lines[0], '[0.1,"m","begun"]', ...events.slice(0, half), '[0.2,"m","the <b>middle</b>"]', '[3600,"o","after an hour\\r\\n"]', ...events.slice(half)].join('\n') + '\n');
  const cast = read(id);
  const [begun, middle] = cast.events.filter((e) => e.code === 'm').map((e) => e.at);
  const p = await opened(id, { query: '?t=0' });
  assert.deepEqual(await p.$$eval('.marker', (l) => l.map((e) => e.title)), ['begun', 'the <b>middle</b>']);
  const at = async (t) => {
    await settled(p);
    assert.equal((await place(p)).toFixed(6), t.toFixed(6));
    assert.equal(await shown(p), truthAt(cast, t));
  };
  await p.focus('[aria-label="Position in the recording"]');
  await p.keyboard.press(']');
  await at(begun);
  await p.keyboard.press(']');
  await at(middle);
  await p.keyboard.press(']'); // there is no other
  await at(middle);
  await p.keyboard.press('[');
  await at(begun);
  await p.click('.marker >> nth=1');
  await at(middle);
  await p.selectOption('[aria-label="Longest pause"]', '0.5');
  await p.selectOption('[aria-label=Speed]', '16');
  await p.click('button[aria-label=Play]');
  await p.waitForSelector('button[aria-label=Play]'); // it is over the hour, and at the end
  await at(cast.events.at(-1).at);
  await end(p);
});

test('a live recording follows, and an ended one can be deleted', { skip: missing }, async () => {
  const id = d.call('session.create', { name: 'live', kind: 'terminal', command: ['cat'], record: true }).session_id;
  const p = await page(b, d, { to: 'live' });
  await p.click('a:text-is("Recording")');
  await p.waitForSelector('.screen[data-ready=yes]');
  await p.waitForSelector('.player .head:has-text("live")');
  d.call('session.input', { session_id: id, text: 'now and here', keys: ['enter'] });
  await until('it is shown', async () => (await screen(p))?.rows.filter((r) => r.includes('now and here')).length === 2);
  await p.goto(`${d.base}/#/recordings`);
  await p.waitForSelector('.recordings li:has-text("live")');
  assert.ok(await p.isDisabled('[aria-label="Delete live"]'));
  d.call('session.destroy', { session_id: id, force: true });
  await until('it can be deleted', () => p.isEnabled('[aria-label="Delete live"]'));
  await p.click('[aria-label="Delete live"]');
  await p.click('.modal .danger');
  await until('it has gone', async () => !d.call('recording.list').recordings.some((r) => r.recording_id === id));
  await until('the list knows', async () => (await p.$(`.recordings a[href*="${id}"]`)) === null);
  await p.goto(`${d.base}/#/r/${id}`);
  await p.waitForSelector('text=This recording cannot be played');
  await end(p);
});

test('axe finds nothing in the list and the player, and nothing scrolls sideways', { skip: missing }, async () => {
  const id = await record('seen');
  const axe = readFileSync(root + '/web/node_modules/axe-core/axe.min.js', 'utf8');
  for (const o of [{ colorScheme: 'light' }, { colorScheme: 'dark', viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }]) {
    const p = await page(b, d, { ...o, bypassCSP: true });
    for (const [route, ready] of [['recordings', '.recordings li'], [`r/${id}?t=0.5`, '.screen[data-ready=yes]']]) {
      await p.goto(`${d.base}/#/${route}`);
      await p.waitForSelector(ready);
      await p.evaluate(axe);
      const found = await p.evaluate(() => window.axe.run({ exclude: ['.xterm'] }, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }));
      assert.deepEqual(found.violations.map((v) => `${route}: ${v.id}: ${v.nodes.map((n) => n.html).join(' | ').slice(0, 400)}`), []);
      assert.ok(await p.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${route}: scrolls sideways`);
    }
    await p.context().close();
  }
});
