// Claude Code and Codex in the page of a phone, with models that follow a script. Where one of them is
// not installed (tests/setup.sh does that), its test says so.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { browser, Daemon, missing, page, root, until } from './harness.mjs';

let d, b, models, agents;
before(async () => {
  if (missing) return;
  const program = join(root, 'build', 'models-web');
  execFileSync('go', ['build', '-trimpath', '-o', program, './tests/dialogue/model/serve'], { cwd: root, stdio: 'inherit', env: { ...process.env, CGO_ENABLED: '0' } });
  models = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] }); // it ends when its stdin does, so also when this process does
  agents = JSON.parse((await once(createInterface(models.stdout), 'line'))[0]);
  // The agents have what the daemon has in its environment.
  Object.assign(process.env, {
    ANTHROPIC_BASE_URL: agents.claude_url, ANTHROPIC_API_KEY: 'none', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1', DISABLE_TELEMETRY: '1', SHELL: '/bin/bash',
  });
  for (const name of ['CLAUDE_CONFIG_DIR', 'CODEX_HOME']) delete process.env[name]; // HOME is the daemon's own directory
  d = await Daemon.start();
  mkdirSync(join(d.dir, '.codex'));
  writeFileSync(join(d.dir, '.codex', 'config.toml'), agents.codex_config);
  b = await browser();
});
after(async () => {
  await b?.close();
  await d?.stop();
  models?.stdin.end();
});

for (const [agent, title, mode] of [['claude', 'Claude Code', ''], ['codex', 'Codex', 'on-request/workspace-write']]) {
  test(`${title} is started on a phone, asks, and goes on while its daemon is killed: nothing is lost`, { skip: missing }, async (t) => {
    if (!agents[agent]) {
      console.log(`SKIPPED: ${title} is not here: it is not tested in the page (tests/setup.sh installs it on linux/amd64)`);
      return t.skip(`${title} is not here`);
    }
    const dir = join(d.dir, agent + '-work');
    mkdirSync(dir);
    const p = await page(b, d, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
    const again = async () => {
      await d.kill();
      await p.waitForSelector('.banner.warn');
      await d.run();
      await p.waitForFunction(() => !document.querySelector('.banner'));
    };
    await p.goto(d.base + '/#/d');
    await p.tap('text=New dialogue…');
    await p.tap(`dialog button:text-is("${title}")`);
    await p.fill('dialog textarea >> nth=0', 'Please [[wait]]');
    await p.fill('dialog label:has-text("Directory") input', dir);
    await p.fill('dialog label:has-text("Name") input', agent);
    await p.tap('dialog summary');
    await p.fill('dialog label:has-text("Program") input', agents[agent]);
    if (mode) await p.fill('dialog label:has-text("Mode") input', mode);
    await p.tap('dialog button[type=submit]');
    // It asks. The daemon is killed, and the same request still waits.
    await p.waitForSelector('.ask:has-text("until [ -e go ]")');
    const id = d.call('dialogue.info', { dialogue_id: agent }).dialogue_id;
    const asked = d.call('dialogue.requests').requests.map((r) => r.request.request_id);
    assert.equal(asked.length, 1);
    await again();
    assert.deepEqual(d.call('dialogue.requests').requests.map((r) => r.request.request_id), asked);
    await p.tap('.ask .allow');
    await until('the card closes', async () => (await p.$$('.ask')).length === 0);
    // The command runs. The daemon is killed, and the command ends while no daemon is there.
    await until('the call runs', () => d.call('dialogue.transcript', { dialogue_id: id }).items.some((i) => i.tool?.status === 'running'));
    await d.kill();
    await p.waitForSelector('.banner.warn');
    writeFileSync(join(dir, 'go'), '');
    await d.run();
    await p.waitForSelector('.item.agent .md :text-is("It went.")');
    await p.fill('#composer', 'And [[turn2]]');
    await p.tap('.composer button[type=submit]');
    await p.waitForSelector('.item.agent .md :text-is("Answer to turn two.")');
    await until('the agent is idle', () => d.call('dialogue.info', { dialogue_id: id }).state === 'idle');
    // The page has what the transcript has, also when it is loaded anew, and no event is missing.
    const words = (i) => (i.tool ? `${i.tool.name} ${i.tool.status}` : (i.parts ?? []).map((x) => x.text).join(''));
    const want = d.call('dialogue.transcript', { dialogue_id: id }).items.filter((i) => i.kind !== 'reasoning').map(words);
    assert.equal(want.filter((w) => w === 'It went.').length, 1);
    const has = () => p.$$eval('.feed .item:not(.reasoning)', (l) => l.map((e) => (e.querySelector('.tool') ? `${e.querySelector('.tool-name').textContent} ${/st-(\w+)/.exec(e.querySelector('.tool').className)[1]}` : (e.querySelector('.md, .bubble > .wrap')?.textContent ?? e.textContent))));
    await until('the page shows the transcript', async () => JSON.stringify(await has()) === JSON.stringify(want));
    await p.reload();
    await p.waitForSelector('.feed .item');
    await until('a new page shows the transcript', async () => JSON.stringify(await has()) === JSON.stringify(want));
    const seqs = d.trl('dialogue', 'events', '--json', id).trim().split('\n').map((l) => JSON.parse(l)).filter((e) => e.event).map((e) => e.event.seq);
    assert.ok(seqs.length > 10, String(seqs.length));
    assert.deepEqual(seqs, seqs.map((_, i) => i + 1));
    assert.ok(existsSync(join(dir, 'allowed.txt')));
    assert.ok(await p.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page scrolls sideways');
    assert.deepEqual(p.faults, []);
    await p.context().close();
    d.call('dialogue.terminate', { dialogue_id: id, force: true });
  });
}
