// Measures the page beside its floors, in the same run and the same browser: what the browser alone
// needs for the same work. It prints a table and asserts nothing. SESSIONS=1000 for a long list,
// RAW=1024MiB for a long stream of an agent.
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { browser, Daemon, fakeAgent, missing, page, root, screen, until } from './harness.mjs';

if (missing) process.exit(0);
const sessions = Number(process.env.SESSIONS ?? 200);
const items = Number(process.env.ITEMS ?? 10_000);
const raw = process.env.RAW ?? '64MiB';
const runs = 5;
process.env.TRL_DIALOGUE_OUTPUT_BYTES = '4GiB';
process.env.TRL_MAX_SESSIONS = String(sessions + 10);
const rows = [];
const median = (l) => [...l].sort((a, b) => a - b)[l.length >> 1];
const ms = (n) => `${n < 10 ? n.toFixed(1) : Math.round(n)} ms`;

/** Runs both in turn, so that a busy moment of the machine hits both. */
async function beside(what, floorName, ours, floor) {
  const [a, z] = [[], []];
  for (let i = 0; i < runs; i++) {
    z.push(await floor());
    a.push(await ours());
  }
  rows.push([what, ms(median(a)), ms(median(z)), floorName]);
  console.log(rows.at(-1).join(' · '));
}

// A server with nothing but an empty page, and the terminal of the console without a daemon.
const dist = join(root, 'web', 'dist');
const bare = createServer((q, s) => {
  const js = q.url.endsWith('.js');
  s.setHeader('Content-Type', js ? 'text/javascript' : 'text/html');
  s.end(js ? readFileSync(join(dist, 'term.js')) : '<!doctype html><title>floor</title><div id="box" style="width:1200px;height:700px"></div>');
});
await new Promise((r) => bare.listen(0, '127.0.0.1', r));
const floorURL = `http://127.0.0.1:${bare.address().port}/`;

const d = await Daemon.start();
const b = await browser();
try {
  // 1. A page with many sessions, until its rows are there.
  for (let i = 0; i < sessions; i++) await d.post('session.create', { name: `many-${i}`, shell: 'none' });
  const p = await page(b, d);
  const empty = await b.newPage();
  const since = (pg, ready) => pg.waitForFunction(ready).then(() => pg.evaluate(() => performance.now()));
  await beside(`the list of ${sessions} sessions, from its address to its rows`, 'an empty page', async () => {
    await p.goto('about:blank');
    await p.goto(d.base + '/#/', { waitUntil: 'commit' });
    return since(p, () => document.querySelectorAll('.rows .tr').length > 5);
  }, async () => {
    await empty.goto('about:blank');
    await empty.goto(floorURL, { waitUntil: 'commit' });
    return since(empty, () => document.getElementById('box'));
  });

  // While 100 events come every second, for 10 s: the longest time in which the page does not answer.
  const longest = (pg) => pg.evaluate(() => new Promise((r) => {
    let most = 0;
    new PerformanceObserver((l) => { for (const e of l.getEntries()) most = Math.max(most, e.duration); }).observe({ entryTypes: ['longtask'] });
    setTimeout(() => r(most), 10_000);
  }));
  let over = false;
  const events = (async () => { // a command is four events
    for (let i = 0; !over; i++) await Promise.all([d.post('exec.run', { session_id: `many-${i % sessions}`, argv: ['true'] }), new Promise((r) => setTimeout(r, 40))]);
  })();
  const tasks = await Promise.all([longest(p), longest(empty)]);
  over = true;
  await events;
  rows.push(['100 events per second in that list: the longest task (below 50 ms: 0)', ...tasks.map(ms), 'an empty page']);
  console.log(rows.at(-1).join(' · '));

  // 2. Typing: from the key to the character on the screen.
  const id = (await d.post('session.create', { name: 'echo', kind: 'terminal', command: ['cat'] })).session_id;
  await p.goto(`${d.base}/#/s/${id}`);
  await p.waitForSelector('.screen[data-ready=yes]');
  await p.click('.screen');
  await empty.goto(floorURL);
  await empty.addScriptTag({ type: 'module', content: `import { Screen } from '/term.js'; const none = () => {}; const box = document.getElementById('box');
    window.s = new Screen(box, { dark: true, font: 14, contrast: false, scrollback: 1000, plain: false, data: (t) => window.s.write(t, t.length), binary: none, paste: none, title: none, bell: none, clipboard: none, link: none, copied: none });` });
  await empty.waitForFunction(() => window.s);
  await empty.evaluate(() => window.s.focus());
  const typed = (pg) => async () => {
    await pg.evaluate(() => {
      const { term } = document.querySelector('.screen')?.trlScreen ?? window.s;
      const x = term.buffer.active.cursorX;
      const at = performance.now();
      window.took = new Promise((r) => { const look = term.onWriteParsed(() => { if (term.buffer.active.cursorX !== x) { look.dispose(); r(performance.now() - at); } }); });
    });
    await pg.keyboard.press('x');
    return pg.evaluate(() => window.took);
  };
  await beside('a key, until its character is parsed', 'xterm.js that echoes itself', typed(p), typed(empty));

  // 3. A flood: 300,000 numbers, until the page shows the last.
  const flood = (await d.post('session.create', { name: 'flood', kind: 'terminal', command: ['bash', '--norc'] })).session_id;
  await p.goto(`${d.base}/#/s/${flood}`);
  await p.waitForSelector('.screen[data-ready=yes]');
  const N = 300_000;
  const text = Array.from({ length: N }, (_, i) => `${i + 1}\r\n`).join('');
  let round = 0;
  await beside(`${N} lines of output, until the last is shown`, 'the same bytes into xterm.js', async () => {
    const mark = `done${++round}x`;
    const at = Date.now();
    await d.post('session.input', { session_id: flood, text: `seq 1 ${N}; echo done$((${round}))x`, keys: ['enter'] });
    await until(mark, async () => (await screen(p))?.rows.some((r) => r.startsWith(mark)));
    return Date.now() - at;
  }, () => empty.evaluate((t) => new Promise((r) => {
    const at = performance.now();
    for (let i = 0; i < t.length; i += 65536) window.s.write(t.slice(i, i + 65536), 1);
    window.s.whenDrained(() => r(performance.now() - at));
  }), text));

  // 4. A long transcript, from its address to its last item.
  const talk = d.call('dialogue.create', { agent: 'claude', name: 'long', argv: [fakeAgent(), '-flat'], working_dir: d.dir, prompt: `lines ${items}` }).dialogue_id;
  await until('the agent is idle', () => d.call('dialogue.info', { dialogue_id: talk }).state === 'idle', 300_000);
  await beside(`a transcript of ${items} items, from its address to the last`, 'an empty page', async () => {
    await p.goto('about:blank');
    await p.goto(`${d.base}/#/d/${talk}`, { waitUntil: 'commit' });
    await p.waitForSelector(`.feed-row:has-text("line ${items} of ${items}")`);
    return p.evaluate(() => performance.now());
  }, async () => {
    await empty.goto('about:blank');
    await empty.goto(floorURL, { waitUntil: 'commit' });
    return since(empty, () => document.getElementById('box'));
  });

  // 5. The raw stream of an agent, from its address to its last line.
  const stream = d.call('dialogue.create', { agent: 'claude', name: 'raw', argv: [fakeAgent(), '-flat'], working_dir: d.dir, prompt: `flood ${raw} 256KiB; say over` }).dialogue_id;
  await until('the agent is idle', () => d.call('dialogue.info', { dialogue_id: stream }).state === 'idle', 600_000);
  await beside(`a raw stream of ${raw}, from its address to its last line`, 'an empty page', async () => {
    await p.goto('about:blank');
    await p.goto(`${d.base}/#/d/${stream}/raw`, { waitUntil: 'commit' });
    await p.waitForSelector('.raw-lines .tr:has-text("session_state_changed") >> nth=-1');
    return p.evaluate(() => performance.now());
  }, async () => {
    await empty.goto('about:blank');
    await empty.goto(floorURL, { waitUntil: 'commit' });
    return since(empty, () => document.getElementById('box'));
  });
  console.log(`\n| what | page | floor | the floor is |\n|---|---|---|---|\n${rows.map((r) => `| ${r.join(' | ')} |`).join('\n')}`);
} finally {
  await b.close();
  await d.stop();
  bare.close();
}
