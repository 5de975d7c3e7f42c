// A busy terminal, a busy dialogue and a page that goes everywhere: what they need does not grow, and
// the daemon has nothing left of them afterwards. TRL_TEST_SOAK_S=3600 goes on for an hour.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, Daemon, fakeAgent, missing, page, screen, until } from './harness.mjs';

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

const seconds = Number(process.env.TRL_TEST_SOAK_S ?? 0);
const ROUNDS = 3;
/** Waits for an element without a hold on it, which would keep it and everything around it. */
const there = async (p, selector) => (await p.waitForSelector(selector)).dispose();

/** Counts the open connections of a page, and reads what the browser keeps for it. */
async function watched(p, route, ready) {
  let sockets = 0;
  p.on('websocket', (ws) => {
    sockets++;
    ws.on('close', () => sockets--);
  });
  await p.goto(`${d.base}/#/${route}`);
  await p.reload();
  await there(p, ready);
  const c = await p.context().newCDPSession(p);
  await c.send('Performance.enable');
  return { p, count: async () => {
    await c.send('HeapProfiler.collectGarbage');
    const m = Object.fromEntries((await c.send('Performance.getMetrics')).metrics.map((x) => [x.name, x.value]));
    const shown = await p.evaluate(() => { let n = 1; for (const w = document.createTreeWalker(document); w.nextNode(); ) n++; return n; });
    return { sockets, listeners: m.JSEventListeners, shown, kept: m.Nodes - shown, heap: m.JSHeapUsedSize };
  } };
}

test('work without an end leaves nothing behind', { skip: missing }, async () => {
  const term = d.call('session.create', { name: 'busy', kind: 'terminal', command: ['bash', '--norc'] }).session_id;
  const shell = d.call('session.create', { name: 'shell', shell: '/bin/sh' }).session_id;
  const exec = d.call('exec.run', { session_id: shell, command: 'seq 1 5000', max_output_bytes: 10 }).exec_id;
  const id = d.call('dialogue.create', { agent: 'claude', name: 'talk', argv: [fakeAgent()], working_dir: d.dir, prompt: 'say begun' }).dialogue_id;
  const idle = () => until('the agent is idle', () => d.call('dialogue.info', { dialogue_id: id }).state === 'idle');
  await idle();
  const stats = () => { const s = d.call('system.stats'); return { connections: s.connections, goroutines: s.goroutines }; };
  const alone = stats();

  const context = await b.newContext({ viewport: { width: 1280, height: 800 } });
  await context.addInitScript(() => localStorage.setItem('trl.prefs', '{"plain":true}'));
  const pages = [
    await watched(await page(b, d, { context }), 's/' + term, '.screen[data-ready=yes]'),
    await watched(await page(b, d, { context }), 'd/' + id, '.feed'),
    await watched(await page(b, d, { context }), '', '.tr.at'),
  ];
  const [terminal, dialogue, tour] = pages.map((x) => x.p);
  let n = 0;
  const round = async () => {
    n++;
    d.call('session.input', { session_id: term, text: `seq 1 3000; echo round$((${n}))x`, keys: ['enter'] });
    d.call('dialogue.send', { dialogue_id: id, text: `lines 60; tool Bash ls; say round ${n} is over.` });
    for (const [route, ready] of [['s/' + term, '.screen[data-ready=yes]'], ['x/' + exec, '.lines .row'], ['s/' + shell, '.execs li'], ['d/' + id, '.feed-row'], [`d/${id}/raw`, '.raw-lines .rows .tr'], ['events', '.timeline .tr'], ['', '.tr.at']]) {
      await tour.goto(`${d.base}/#/${route}`);
      await there(tour, ready);
    }
    await until('the terminal shows it', async () => (await screen(terminal))?.rows.includes(`round${n}x`));
    await until('the dialogue shows it', () => dialogue.$$eval('.item.agent .md', (l, text) => l.some((e) => e.textContent.includes(text)), `round ${n} is over.`));
    await idle();
  };
  const count = async () => {
    const list = [];
    for (const x of pages) list.push(await x.count());
    return list;
  };
  const end = Date.now() + seconds * 1000;
  for (let i = 0; i < 3; i++) await round();
  const first = await count();
  const busy = stats();
  do await round(); while (n < 3 + ROUNDS || Date.now() < end);
  await until(`the daemon needs no more: ${JSON.stringify(busy)}`, () => { const s = stats(); return s.connections <= busy.connections && s.goroutines <= busy.goroutines; });
  // A connection of a page that was left closes a moment later, and what it kept goes after that.
  const last = await until('the pages need no more', async () => {
    const list = await count();
    for (const [i, c] of list.entries()) {
      assert.ok(c.sockets <= first[i].sockets, `page ${i} had ${first[i].sockets} connections and has ${c.sockets}`);
      // Of what every round left, more than this would be left. Rows that are shown have listeners, too.
      assert.ok(c.listeners < first[i].listeners + 2 * ROUNDS, `page ${i} had ${first[i].listeners} listeners and has ${c.listeners}`);
      assert.ok(c.shown < 3000 && c.kept < first[i].kept + 200 * ROUNDS, `page ${i} shows ${c.shown} nodes, and keeps ${c.kept} others instead of ${first[i].kept}`);
      assert.ok(c.heap < 150e6, `page ${i} keeps ${c.heap} bytes`);
    }
    return list;
  });
  if (seconds > 0) console.log(`${n} rounds`, JSON.stringify({ first, last }));
  for (const { p } of pages) assert.deepEqual(p.faults, []);
  await context.close();
  await until(`nothing is left: ${JSON.stringify(alone)}`, () => { const s = stats(); return s.connections <= alone.connections && s.goroutines <= alone.goroutines; });
});
