// Pictures of every route, light and dark, on a desktop and a phone, into web/shots. They are for
// people to look at; nothing compares them. The three of the README are there, too, as docs has them.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { browser, Daemon, fakeAgent, gives, missing, page, root, says, screen, until, use } from './harness.mjs';

if (missing) process.exit(0);
const out = join(root, 'web', 'shots');
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const d = await Daemon.start();
const b = await browser();
try {
  // Something to look at in terminals that tells nothing of this machine.
  const suite = `printf '\\033[1m$ make test\\033[0m\\n'; for p in api client server session shell terminal wire; do printf '\\033[32mok\\033[0m    app/%-12s \\033[2m0.4s\\033[0m\\n' $p; done; printf '\\033[31mFAIL\\033[0m  app/%-12s \\033[2m2.0s\\033[0m\\n      \\033[33mconn_test.go:41\\033[0m: close hung\\n' conn`;
  const change = `printf '\\033[1m$ git diff\\033[0m\\n\\033[36m@@ func (c *conn) close() error {\\033[0m\\n  \\tc.mu.Lock()\\n\\033[31m- \\treturn nil\\n\\033[32m+ \\tdefer c.mu.Unlock()\\n+ \\treturn errClientGone\\033[0m\\n'`;
  const argv = [fakeAgent()];
  const talk = (name, prompt, more = {}) => d.call('dialogue.create', { agent: 'claude', name, argv, working_dir: d.dir, prompt, ...more }).dialogue_id;
  const edit = use('Edit', { file_path: '/src/app/server/conn.go', old_string: 'func (c *conn) close() error {\n\tc.mu.Lock()\n\treturn nil\n}', new_string: 'func (c *conn) close() error {\n\tc.mu.Lock()\n\tdefer c.mu.Unlock()\n\treturn errClientGone\n}' });
  const todo = use('TodoWrite', { todos: [{ content: 'Find the test that fails', status: 'completed' }, { content: 'Fix the lock in conn.go', status: 'in_progress' }, { content: 'Run everything again', status: 'pending' }] });
  const test = use('Bash', { command: 'make test', description: 'Run the tests' });
  const sub = use('Agent', { description: 'find the flaky test', prompt: 'Find the test that fails now and then, and say why.', subagent_type: 'general-purpose' });
  const inner = use('Agent', { description: 'read the log', prompt: 'Does the log of the last run have a timeout?', subagent_type: 'general-purpose' }, { parent: sub.id });
  const grep = use('Grep', { pattern: 'timeout', path: '/src/app' }, { parent: sub.id });
  const read = use('Read', { file_path: '/src/app/server/conn_test.go' }, { parent: inner.id });
  const fix = talk('fix', [
    'say I look at the failures first.', 'think The lock is taken twice, so the second close hangs.\nI should read conn.go.', todo.line, gives(todo.id, 'ok'),
    test.line, gives(test.id, '--- FAIL: TestClose (2.00s)\n    conn_test.go:41: close hung\n\u001b[31mFAIL\u001b[0m\tapp/server\t2.013s\nok  \tapp/client\t0.4s', { failed: true }),
    sub.line, says('I search the tests.', sub.id), grep.line, gives(grep.id, 'conn_test.go:12\nconn_test.go:41', { parent: sub.id }), inner.line, read.line, gives(read.id, 'package server', { parent: inner.id }), gives(inner.id, 'The log has no timeout.', { parent: sub.id }), gives(sub.id, '`TestClose` is flaky: it waits for a lock.'),
    edit.line, gives(edit.id, 'The file has been updated.'),
    'say The close did not release its lock.\n\n## What changed\n\n| file | change |\n|---|---|\n| `conn.go` | releases the lock |\n| `conn_test.go` | *nothing* |\n\n- [x] found the reason\n- [ ] ran everything\n\n```go\ndefer c.mu.Unlock()\n```\n\nSee [the documentation](https://example.com/docs) for more.',
    'ask Bash rm -rf build && make test',
  ].join('; '), { tags: ['app'] });
  talk('docs', 'say The manual is up to date.');
  talk('colours', 'question Which colour should the button have?');
  const form = { subtype: 'elicitation', mcp_server_name: 'database', message: 'Which database should the tests use?', requested_schema: { type: 'object', required: ['host', 'kind'], properties: {
    host: { type: 'string', title: 'Host' }, port: { type: 'integer', title: 'Port', default: 5432 }, kind: { type: 'string', title: 'Kind', enum: ['main', 'copy'] }, tables: { type: 'array', title: 'Tables', items: { type: 'string', enum: ['users', 'orders'] } }, secure: { type: 'boolean', title: 'Encrypted', description: 'with TLS' } } } };
  const asks = talk('schema', `raw ${JSON.stringify({ type: 'control_request', request_id: 'form', request: form })}; hang`);
  const ended = talk('old', 'say Done for today.');
  talk('busy', 'say I work on it.; hang');
  d.call('session.create', { name: 'build', shell: '/bin/sh', tags: ['ci'] });
  d.call('session.create', { name: 'ed', kind: 'terminal', command: ['sh', '-c', `${suite}; exec cat`] });
  const exec = d.call('exec.run', { session_id: 'build', command: `seq 200; ${suite}` }).exec_id;
  const film = d.call('session.create', { name: 'demo', kind: 'terminal', command: ['sh', '-c', `${suite}; sleep 0.5; ${change}; sleep 0.5`], record: true }).session_id;
  await until('they ask', () => d.call('dialogue.requests').requests.length === 3);
  await until('it is idle', () => d.call('dialogue.info', { dialogue_id: ended }).state === 'idle');
  d.call('dialogue.terminate', { dialogue_id: ended });
  d.trl('share', 'build', '--json');
  const id = (n) => d.call('session.info', { session_id: n }).session_id;
  const routes = {
    sessions: ['', '.tr.at'], terminal: ['s/' + id('ed'), '.screen[data-ready=yes]'], commands: ['s/' + id('build'), '.execs li'], log: ['x/' + exec, '.lines .row'], dialogues: ['d', '.tr.at'], dialogue: ['d/' + fix, '.ask'],
    question: ['d/' + d.call('dialogue.info', { dialogue_id: 'colours' }).dialogue_id, 'fieldset'], ended: ['d/' + ended, '.end-card'], working: ['d/' + d.call('dialogue.info', { dialogue_id: 'busy' }).dialogue_id, '.live'],
    form: ['d/' + asks, '.field'], inbox: ['inbox', '.ask >> nth=1'], inspector: ['d/' + fix + '/raw', '.raw-lines .tr'], recordings: ['recordings', '.recordings li'], player: ['r/' + film + '?t=0.8', '.screen[data-ready=yes]'], events: ['events', '.timeline .tr'], health: ['daemon', '.stat'], settings: ['settings', 'text=Logins'],
  };
  const wanted = process.argv.slice(2); // such as phone, desk-light, readme
  const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };
  const unfold = async (p) => {
    await p.click('.k-agent .fold');
    await p.waitForSelector('.nested .k-agent');
    await p.click('.nested .k-agent .fold');
    await p.mouse.move(0, 0);
  };
  for (const [name, [route, o]] of Object.entries({ dialogue: ['dialogue', {}], recording: ['player', { viewport: { width: 900, height: 520 } }], phone: ['inbox', phone] })) {
    if (wanted.length && !wanted.includes('readme')) continue;
    const p = await page(b, d, { colorScheme: 'dark', ...o });
    await p.goto(`${d.base}/#/${routes[route][0]}`);
    await p.waitForSelector(routes[route][1]);
    if (route === 'dialogue') await unfold(p);
    await p.waitForTimeout(500);
    const png = await p.screenshot({ path: join(out, `console-${name}.png`) });
    await p.goto('about:blank');
    const webp = await p.evaluate(async (text) => {
      const picture = await createImageBitmap(new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))]));
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [picture.width, picture.height];
      canvas.getContext('2d').drawImage(picture, 0, 0);
      return canvas.toDataURL('image/webp', 0.7).split(',')[1];
    }, png.toString('base64'));
    writeFileSync(join(out, `console-${name}.webp`), Buffer.from(webp, 'base64'));
    await p.context().close();
  }
  for (const [kind, o] of Object.entries({
    'desk-dark': { colorScheme: 'dark' }, 'desk-light': { colorScheme: 'light' }, 'phone-dark': { colorScheme: 'dark', ...phone }, 'phone-light': { colorScheme: 'light', ...phone },
  })) {
    if (wanted.length && !wanted.some((w) => kind.startsWith(w))) continue;
    const p = await page(b, d, o);
    for (const [name, [route, ready]] of Object.entries(routes)) {
      await p.goto(`${d.base}/#/${route}`);
      await p.waitForSelector(ready);
      if (name === 'terminal') await until('it is drawn', async () => (await screen(p))?.rows.some(Boolean));
      if (name === 'dialogue') await unfold(p);
      if (name === 'inspector') {
        await p.click('.raw-lines .rows .tr >> nth=-3');
        await p.waitForSelector('.detail');
      }
      await p.waitForTimeout(300); // pictures only: fonts, and the last frame
      await p.screenshot({ path: join(out, `${name}-${kind}.png`) });
    }
    await p.goto(`${d.base}/#/d`);
    await p.click('text=New dialogue…');
    await p.waitForTimeout(200);
    await p.screenshot({ path: join(out, `new-dialogue-${kind}.png`) });
    await p.goto(`${d.base}/#/d/${fix}`);
    await p.reload(); // without the dialog
    await p.click('button[aria-label=More]');
    await p.click('text=Share…');
    await p.waitForSelector('dialog select');
    await p.screenshot({ path: join(out, `share-${kind}.png`) });
    await p.click('dialog button.primary');
    await p.waitForSelector('dialog input[readonly]');
    await p.screenshot({ path: join(out, `share-link-${kind}.png`) });
    if (p.faults.length) console.log(kind, p.faults);
    await p.context().close();
  }
  console.log(`the pictures are in ${out}`);
} finally {
  await b.close();
  await d.stop();
}
