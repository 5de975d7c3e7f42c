import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { browser, compose, cutter, Daemon, hide, missing, page, root, sameScreen, screen, trl, until } from './harness.mjs';

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

const make = (name, ...command) => d.call('session.create', { name, kind: 'terminal', command }).session_id;

/** Without webgl the DOM draws: software that stands for a graphics card makes a test many times slower. */
async function attached(name, { webgl = false, base, context, ...options } = {}) {
  context ??= await b.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  if (!webgl) await context.addInitScript(() => { if (!localStorage.getItem('trl.prefs')) localStorage.setItem('trl.prefs', '{"plain":true}'); });
  const p = await page(b, d, { to: name, context, base });
  await p.waitForSelector('.screen[data-ready=yes]');
  await until('it has a size', async () => /\d+×\d+/.test(await p.textContent('.terminal .bar')));
  return p;
}
const shows = (p, text) => until(`the page shows ${text}`, async () => (await screen(p))?.rows.some((r) => r.includes(text)));
/** A page may attach before it knows its size; the terminal gets the size of the window a little later. */
const sized = (p) => until('the terminal has the size of the window', () => p.evaluate(() => {
  const s = document.querySelector('.screen').trlScreen;
  const { cols, rows } = s.proposed();
  return s.term.cols === cols && s.term.rows === rows;
}));
/** The middle of a cell of the terminal, counted from 0. */
const cell = (p, col, row) => p.evaluate(([c, r]) => {
  const { term } = document.querySelector('.screen').trlScreen;
  const box = term.element.querySelector('.xterm-screen').getBoundingClientRect();
  return [box.left + (box.width / term.cols) * (c + 0.5), box.top + (box.height / term.rows) * (r + 0.5)];
}, [col, row]);
/** Moves the mouse inside one cell until there is a link. */
const overLink = (p, col, row) => until('the link is under the mouse', async () => {
  const [x, y] = await cell(p, col, row);
  await p.mouse.move(x, y - 1);
  await p.mouse.move(x, y);
  return p.$('.xterm-cursor-pointer');
});
const screenOf = (id) => d.call('session.screen', { session_id: id }).text ?? '';
const end = async (p, id) => {
  assert.deepEqual(p.faults, []);
  assert.deepEqual(await p.evaluate(() => window.violations), []);
  await p.context().close();
  d.call('session.destroy', { session_id: id, force: true });
};

test('what is typed arrives, and what is printed is shown as the daemon shows it', { skip: missing }, async () => {
  const id = make('type', 'bash', '--norc');
  const p = await attached('type', { webgl: true });
  assert.equal(await p.getAttribute('.screen', 'data-renderer'), 'webgl');
  await p.click('.screen');
  await p.keyboard.type('printf "é 中文 😀 \\033[31mred\\033[38;2;1;2;3mtrue\\033[0m\\n"\n');
  await shows(p, 'é 中文 😀 redtrue');
  await sameScreen(p, d, id);
  await p.keyboard.type('vim -u NONE -n\n');
  await shows(p, '~');
  await p.keyboard.type('ihello');
  await p.keyboard.press('Escape');
  await shows(p, 'hello');
  await sameScreen(p, d, id);
  await p.keyboard.type(':q!\n');
  await until('vim has gone', async () => (await screen(p))?.rows.every((r) => !r.startsWith('~')));
  await p.keyboard.type('seq 1 500 | less\n');
  await shows(p, ':');
  await p.keyboard.type('G');
  await shows(p, '(END)');
  await p.keyboard.type('?^250$\n');
  await shows(p, '250');
  await sameScreen(p, d, id);
  await p.keyboard.type('q');
  await until('less has gone', async () => (await screen(p))?.rows.every((r) => !r.startsWith('250')));
  await p.keyboard.type('top -d 1000\n'); // draws once
  await shows(p, 'PID');
  await sameScreen(p, d, id);
  await end(p, id);
});

test('the DOM renderer obeys the policy, too', { skip: missing }, async () => {
  const id = make('plain', 'sh', '-c', "printf '\\033[31mred\\033[0m \\033[38;2;1;2;3mtrue\\033[0m \\033[38;5;208morange\\033[0m \\033[48;5;21mback\\033[0m\\n'; cat");
  const context = await b.newContext({ viewport: { width: 1000, height: 600 } });
  await context.addInitScript(() => localStorage.setItem('trl.prefs', JSON.stringify({ plain: true, theme: 'dark' })));
  const p = await attached('plain', { context });
  assert.equal(await p.getAttribute('.screen', 'data-renderer'), 'dom');
  await shows(p, 'red true orange back');
  // In one step: the rows are drawn anew at any time, and an element that was replaced has no colour.
  const colours = await p.evaluate(() => Object.fromEntries([...document.querySelectorAll('.xterm-rows span')].map((e) => [e.textContent, [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]])));
  assert.deepEqual([colours.red[0], colours.true[0], colours.orange[0], colours.back[1]], ['rgb(240, 113, 107)', 'rgb(1, 2, 3)', 'rgb(255, 135, 0)', 'rgb(0, 0, 255)']);
  await end(p, id);
});

test('a query of the program is answered once, however many pages look', { skip: missing }, async () => {
  for (const pages of [0, 1, 3]) {
    const id = make('ask', 'bash', '--norc', '-c', `stty raw -echo; read -rsn1; printf '\\e[6n\\e[c\\e[>c\\e[5n\\e]11;?\\a\\eP$qm\\e\\\\\\e[?6n\\e[18t\\e[?2004$p'; sleep 1; printf '\\e[6n'; IFS= read -rsd R a; IFS= read -rsd R b; IFS= read -rsd R c; IFS= read -rst 1 rest; printf '%q\\r\\n' "$a" "$b" "$c" "$rest" done; cat`);
    const list = [];
    for (let i = 0; i < pages; i++) list.push(await attached('ask'));
    d.call('session.input', { session_id: id, text: 'x' });
    await until('the answers are printed', () => screenOf(id).includes('done'));
    const text = screenOf(id);
    assert.equal([...text.matchAll(/\[\?\d+;[\d;]*c/g)].length, 1, `DA1 was answered more than once:\n${text}`);
    assert.equal([...text.matchAll(/\[>\d+;[\d;]*c/g)].length, 1, `DA2 was answered more than once:\n${text}`);
    assert.ok([...text.matchAll(/\]11;rgb/g)].length <= 1, text);
    for (const p of list) {
      assert.deepEqual(p.faults, []);
      await p.context().close();
    }
    d.call('session.destroy', { session_id: id, force: true });
  }
});

test('input arrives in order and once, across lost connections', { skip: missing }, async () => {
  const id = make('order', 'sh', '-c', 'stty raw -echo; head -c 2000 | cksum; cat');
  const between = await cutter(d);
  const p = await attached('order', { base: between.base });
  await p.click('.screen');
  const text = Array.from({ length: 500 }, (_, i) => String(i).padStart(3, '0') + ' ').join('');
  for (let i = 0; i < 500; i++) {
    await Promise.all([...text.slice(i * 4, i * 4 + 4)].map((c) => p.keyboard.insertText(c))); // one after the other, without a pause
    if (i % 100 === 50) between.cut();
  }
  const want = execFileSync('cksum', { input: text, encoding: 'utf8' }).trim();
  await until('everything has arrived', () => screenOf(id).includes(want));
  await end(p, id);
  between.close();
});

test('a killed daemon: the page waits, goes on, and types what was typed meanwhile once', { skip: missing }, async () => {
  const id = make('kill', 'bash', '--norc');
  const p = await attached('kill');
  await p.click('.screen');
  await p.keyboard.type('echo be$((1))fore\n');
  await shows(p, 'be1fore');
  await p.evaluate(() => { document.querySelector('.screen').mark = 1; });
  await d.kill();
  await p.waitForSelector('.banner.warn');
  await p.waitForSelector('.terminal .note.warn');
  await p.keyboard.type('echo mean$((1))while\n');
  await until('it waits', async () => /wait/.test(await p.textContent('.terminal .note.warn')));
  await d.run();
  await shows(p, 'mean1while');
  await until('the banner goes', async () => (await p.$('.banner')) === null);
  assert.equal([...screenOf(id).matchAll(/^mean1while/gm)].length, 1);
  assert.equal(await p.evaluate(() => document.querySelector('.screen').mark), 1, 'the page was loaded anew');
  await sameScreen(p, d, id);
  await end(p, id);
});

test('a daemon that is killed while a terminal prints: every line is there once', { skip: missing }, async () => {
  const go = join(d.dir, 'print-no-more');
  const id = make('print', 'sh', '-c', 'i=0; until [ -e "$1" ]; do echo "n$i."; i=$((i+1)); sleep 0.01; done; echo the end; cat', 'sh', go);
  const p = await attached('print');
  const last = async () => Math.max(-1, ...((await screen(p))?.rows ?? []).map((r) => Number(/^n(\d+)\.$/.exec(r)?.[1] ?? -1)));
  await until('it prints', async () => (await last()) > 20);
  await d.kill();
  const before = await last();
  await p.waitForSelector('.banner.warn');
  await d.run();
  await until('it goes on', async () => (await last()) > before + 30);
  writeFileSync(go, '');
  await shows(p, 'the end');
  await sameScreen(p, d, id);
  const numbers = await p.evaluate(() => {
    const { active } = document.querySelector('.screen').trlScreen.term.buffer;
    return Array.from({ length: active.length }, (_, i) => active.getLine(i).translateToString(true)).map((l) => /^n(\d+)\.$/.exec(l)?.[1]).filter(Boolean).map(Number);
  });
  assert.ok(numbers[0] <= before, `what was shown before the daemon was killed is gone: it begins with ${numbers[0]}`);
  numbers.forEach((n, i) => assert.equal(n, numbers[0] + i, 'a line is missing or double'));
  await end(p, id);
});

test('a link of a program asks before it opens, and one that runs something is refused', { skip: missing }, async () => {
  const id = make('links', 'sh', '-c', `read -r go; for a in 'javascript:hacked=1' 'JaVaScRiPt:hacked=1' 'data:text/html,<script>opener.hacked=1</script>' 'file:///etc/passwd' 'https://evil.example/x'; do printf '\\033]8;;%s\\033\\\\press here\\033]8;;\\033\\\\\\n' "$a"; done; cat`);
  const p = await attached('links');
  await sized(p);
  const opened = [];
  p.context().on('page', (x) => opened.push(x.url()));
  d.call('session.input', { session_id: id, text: 'go\n' });
  await until('all are there', async () => (await screen(p))?.rows.filter((r) => r === 'press here').length === 5);
  const press = async (row) => {
    await overLink(p, 3, row + 1); // below the line that was typed
    await p.mouse.down();
    await p.mouse.up();
  };
  for (const [row, kind] of ['javascript:', 'javascript:', 'data:', 'file:'].entries()) {
    await press(row);
    await p.waitForSelector(`.toast:has-text("Links of the kind ${kind} are not opened")`);
    assert.equal(await p.$('dialog[open]'), null);
    await p.evaluate(() => document.querySelectorAll('.toast').forEach((e) => e.remove()));
    await p.mouse.move(5, 5);
  }
  await press(4);
  await p.waitForSelector('dialog[open]:has-text("https://evil.example/x")');
  await p.keyboard.press('Escape');
  assert.equal(await p.evaluate(() => window.hacked), undefined);
  assert.deepEqual(opened, []);
  await end(p, id);
});

test('a link below a mouse that rests reacts after output, a new size and a dialog', { skip: missing }, async () => {
  const id = make('rest', 'sh', '-c', String.raw`stty -echo; echo ready; read -r go; printf '\033]8;;https://one.example/\033\\press here\033]8;;\033\\\n'; cat`);
  const p = await attached('rest');
  await sized(p);
  await shows(p, 'ready');
  const asks = async () => {
    await p.mouse.down();
    await p.mouse.up();
    await p.waitForSelector('dialog[open]:has-text("https://one.example/")');
    await p.keyboard.press('Escape');
    await p.waitForSelector('dialog[open]', { state: 'detached' });
  };
  await p.mouse.move(...(await cell(p, 3, 1)));
  d.call('session.input', { session_id: id, text: 'go\n' });
  await shows(p, 'press here');
  await overLink(p, 3, 1);
  const cols = () => p.evaluate(() => document.querySelector('.screen').trlScreen.term.cols);
  const before = await cols();
  await p.setViewportSize({ width: 1000, height: 700 });
  await until('the terminal is smaller', async () => (await cols()) < before);
  await sized(p);
  await overLink(p, 3, 1);
  await asks();
  await asks(); // the mouse has not moved
  await end(p, id);
});

test('a program that follows the mouse gets each move once', { skip: missing }, async () => {
  const id = make('mouse', 'sh', '-c', String.raw`stty raw -echo; printf '\033[?1003h\033[?1006hready\r\n'; cat -v`);
  const p = await attached('mouse');
  await sized(p);
  await shows(p, 'ready');
  for (const col of [3, 9, 3]) { // each report is printed, so the links may have changed before the next one
    await p.mouse.move(...(await cell(p, col, 5)));
    await shows(p, `<35;${col + 1};6M`);
  }
  await until('every report is printed', () => screenOf(id).split('<35;4;6M').length === 3);
  assert.equal(screenOf(id).trim(), 'ready\n^[[<35;4;6M^[[<35;10;6M^[[<35;4;6M');
  await end(p, id);
});

test('an upgraded daemon: sessions and login stay, and the page offers a new version only where there is one', { skip: missing }, async () => {
  const id = make('upgrade', 'bash', '--norc');
  const p = await attached('upgrade');
  const logins = d.json('web', 'ls', '--json').logins.length;
  const { started_at: started } = d.call('session.info', { session_id: id });
  const upgraded = async (...binary) => {
    // A daemon that is about to be replaced may answer 503; the page asks again.
    await Promise.all([p.waitForResponse((r) => r.url().endsWith('/web/me') && r.status() === 200), d.trl('upgrade', ...binary)]);
    await p.waitForSelector('.net.online');
    await until('the terminal is attached again', async () => (await p.$('.terminal .note')) === null);
  };
  const typed = async (word) => {
    await p.click('.screen');
    await p.keyboard.type(`echo ${word}$((1))\n`);
    await shows(p, word + '1');
    await sameScreen(p, d, id);
    assert.equal(await p.$('.cover, main.login'), null, 'a login was asked for');
  };
  await p.evaluate(() => { document.querySelector('.screen').mark = 1; });
  await upgraded();
  await typed('same');
  assert.equal(await p.$('.banner'), null);
  // A daemon whose page has one other letter.
  const other = join(d.dir, 'other');
  const bytes = readFileSync(trl);
  const at = bytes.indexOf(readFileSync(join(root, 'web', 'dist', 'licenses.txt')));
  assert.ok(at > 0, 'the page is not in the program as it is in web/dist');
  bytes[at] ^= 0x20;
  writeFileSync(other, bytes, { mode: 0o755 });
  await upgraded(other);
  await p.waitForSelector('.banner:has-text("new version")');
  await typed('old');
  assert.equal(await p.evaluate(() => document.querySelector('.screen').mark), 1, 'the page was loaded anew');
  await Promise.all([p.waitForEvent('load'), p.click('.banner button')]);
  await p.waitForSelector('.screen[data-ready=yes]');
  await shows(p, 'old1');
  await typed('new');
  assert.equal(await p.$('.banner'), null);
  assert.equal(d.json('web', 'ls', '--json').logins.length, logins);
  assert.equal(d.call('session.info', { session_id: id }).started_at, started);
  d.trl('upgrade');
  await end(p, id);
});

test('a flood ends with the right picture, and the page answers a click meanwhile', { skip: missing }, async () => {
  const id = make('flood', 'bash', '--norc');
  const p = await attached('flood');
  await p.click('.screen');
  const flag = join(d.dir, 'clicked');
  await p.keyboard.type(`until [ -e ${flag} ]; do seq 1 20000; done; seq 1 300000; echo fin$((1))ished\n`);
  await until('it floods', () => p.evaluate(() => document.querySelector('.screen').trlScreen.pending > 0));
  await p.click('button:text-is("Find")'); // it floods until this is answered
  await p.waitForSelector('[aria-label="Find in this terminal"]');
  assert.doesNotMatch(screenOf(id), /fin1ished/);
  writeFileSync(flag, '');
  await until('the flood is over', () => screenOf(id).includes('fin1ished'));
  await shows(p, 'fin1ished');
  await sameScreen(p, d, id);
  await end(p, id);
});

test('one viewer owns the size; another can take it; trl attach follows', { skip: missing }, async () => {
  const id = make('size', 'sh', '-c', "trap 'stty size' WINCH; while :; do sleep 0.05; done");
  const size = () => { const s = d.call('session.screen', { session_id: id }); return `${s.cols}×${s.rows}`; };
  const first = await attached('size');
  await until('the first owns it', async () => (await first.textContent('.terminal .bar')).includes('(yours)'));
  await sized(first);
  const was = size();
  const cli = make('sit', 'env', `TRL_SOCKET_PATH=${d.env.TRL_SOCKET_PATH}`, trl, 'attach', 'size');
  const viewers = (n) => until(`${n} look`, () => d.call('session.info', { session_id: id }).terminal.viewers === n);
  await viewers(2);
  assert.equal(size(), was);
  const second = await attached('size', { viewport: { width: 700, height: 500 } });
  await until('the second follows', async () => (await second.textContent('.terminal .bar')).includes(was));
  assert.equal(size(), was);
  await second.click('text=Take size');
  await until('it owns it now', async () => (await second.textContent('.terminal .bar')).includes('(yours)'));
  await until('the terminal has another size', () => size() !== was);
  await until('the first is told', async () => { const t = await first.textContent('.terminal .bar'); return t.includes(size()) && !t.includes('(yours)'); });
  const told = () => until('trl attach is told', () => screenOf(cli).includes(size().split('×').reverse().join(' ')));
  await told();
  await second.context().close();
  await until('the first has it again', () => size() === was);
  await told();
  await first.context().close();
  await until('trl attach has it', () => size() === '80×24');
  await told();
  for (const x of [cli, id]) d.call('session.destroy', { session_id: x, force: true });
});

test('a page that only looks types nothing', { skip: missing }, async () => {
  const id = make('look', 'cat');
  const p = await attached('look');
  await p.click('text=Watch only');
  await p.waitForSelector('text=Type here');
  await p.waitForSelector('.screen[data-ready=yes]');
  await p.click('.screen');
  await p.keyboard.type('typed');
  await p.evaluate(() => {
    const data = new DataTransfer();
    data.setData('text/plain', 'pasted');
    const at = document.querySelector('.screen .xterm');
    at.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
    at.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await compose(p, ['z', 'zh', '中'], '中文');
  await p.click('text=Type here');
  await p.waitForSelector('text=Watch only');
  await p.waitForSelector('.screen[data-ready=yes]');
  await p.click('.screen');
  await compose(p, ['n', 'に', '日'], '日本');
  await p.keyboard.type('allowed\n');
  await shows(p, '日本allowed');
  assert.equal(screenOf(id).trim(), '日本allowed\n日本allowed'); // typed and echoed, and nothing else
  await end(p, id);
});

test('text is pasted as a paste and found', { skip: missing }, async () => {
  const id = make('paste', 'cat');
  const p = await attached('paste');
  await p.evaluate(() => {
    const data = new DataTransfer();
    data.setData('text/plain', 'one needle\ntwo');
    document.querySelector('.screen .xterm').dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
  });
  await shows(p, 'one needle');
  await p.click('.screen');
  await p.keyboard.press('Control+Alt+f');
  await p.keyboard.type('nosuch');
  await p.keyboard.press('Enter');
  await p.waitForSelector('text=not found');
  await p.fill('[aria-label="Find in this terminal"]', 'needle');
  await p.keyboard.press('Enter');
  await until('it is selected', () => p.evaluate(() => document.querySelector('.screen').trlScreen.term.getSelection() === 'needle'));
  await end(p, id);
});

test('a phone types lines and leaves the size alone', { skip: missing }, async () => {
  const id = make('phone', 'bash', '--norc');
  const p = await attached('phone', { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await p.fill('[aria-label="A line for the program"]', 'echo 中文 $((40+2))');
  await p.tap('text=Send');
  await shows(p, '中文 42');
  const s = d.call('session.screen', { session_id: id });
  assert.deepEqual([s.cols, s.rows], [80, 24]);
  assert.equal([...s.text.matchAll(/^中文 42/gm)].length, 1);
  // Composed text goes once, and only when it is sent.
  await p.tap('[aria-label="A line for the program"]');
  await p.keyboard.type('echo ');
  await compose(p, ['n', 'に', '日'], '日本');
  assert.equal(await p.inputValue('[aria-label="A line for the program"]'), 'echo 日本');
  await p.keyboard.press('Enter');
  await shows(p, '日本');
  await until('it was typed once', () => [...screenOf(id).matchAll(/日本$/gm)].length === 2); // the line, and its output
  // The keyboard of the system is open, below the page or above it: the prompt stays in sight.
  await p.fill('[aria-label="A line for the program"]', 'seq 100; printf "the prompt "');
  await p.tap('text=Send');
  await shows(p, 'the prompt');
  const inSight = (height) => p.evaluate((h) => {
    const { term } = document.querySelector('.screen').trlScreen;
    const [box, drawn, line] = [document.querySelector('.screen'), term.element.querySelector('.xterm-screen'), document.querySelector('.line input')].map((e) => e.getBoundingClientRect());
    const row = drawn.height / term.rows;
    const top = drawn.top + term.buffer.active.cursorY * row;
    return term.buffer.active.cursorY === 23 && drawn.height > box.height && top >= box.top - 1 && top + row <= box.bottom + 1 && box.bottom <= line.top && line.bottom <= h;
  }, height);
  await p.setViewportSize({ width: 390, height: 400 });
  await until('the prompt is above the keyboard', () => inSight(400));
  await p.setViewportSize({ width: 390, height: 844 });
  await until('the page is large again', async () => !(await inSight(844)));
  const covered = (height) => p.evaluate((h) => {
    Object.defineProperty(visualViewport, 'height', { value: h, configurable: true });
    visualViewport.dispatchEvent(new Event('resize'));
  }, height);
  await covered(380);
  await until('the prompt is above the keyboard that covers the page', () => inSight(380));
  await covered(844);
  await until('the page is large again', async () => !(await inSight(844)));
  await p.fill('[aria-label="A line for the program"]', 'cat');
  await p.tap('text=Send');
  await p.tap('[aria-label="^C, Control C"]');
  await shows(p, '^C');
  for (const box of await p.$$eval('.keys button, .line .primary', (l) => l.map((e) => e.getBoundingClientRect().height))) assert.ok(box >= 44);
  await end(p, id);
});

test('twelve pages are live, and a plain call is still answered', { skip: missing }, async () => {
  const id = make('tabs', 'cat');
  const context = await b.newContext({ viewport: { width: 600, height: 400 } });
  const list = [await attached('tabs', { context })];
  for (let i = 1; i < 12; i++) {
    const p = await context.newPage();
    p.faults = [];
    await p.goto(`${d.base}/#/s/${id}`);
    await p.waitForSelector('.screen[data-ready=yes]');
    list.push(p);
  }
  d.call('session.input', { session_id: id, text: 'everywhere' });
  for (const p of list) await shows(p, 'everywhere');
  assert.equal(await list[0].evaluate(() => fetch('/healthz').then((r) => r.status)), 200);
  await context.close();
  d.call('session.destroy', { session_id: id, force: true });
});

test('viewers are shown by name', { skip: missing }, async () => {
  const id = make('named', 'cat');
  const first = await attached('named');
  await first.evaluate(() => localStorage.setItem('trl.prefs', JSON.stringify({ plain: true, name: 'Ada' })));
  await first.reload();
  await first.waitForSelector('.screen[data-ready=yes]');
  assert.equal(await first.$('.who'), null);
  const second = await attached('named');
  await second.waitForSelector('.who:has-text("with Ada")');
  await until('the size has an owner by name', async () => /\(of Ada\)/.test(await second.textContent('.terminal .bar')));
  await second.click('text=Watch only');
  await first.waitForSelector('.who:has-text("(watching)")');
  await second.context().close();
  await until('it has gone', async () => (await first.$('.who')) === null);
  await end(first, id);
});

test('keys that look alike reach a program with the kitty protocol as they are', { skip: missing }, async () => {
  const id = make('kitty', 'sh', '-c', "stty raw -echo; printf 'old\\r\\n'; head -c 1 | cat -v; printf '\\033[>1unew\\r\\n'; cat -v");
  const p = await attached('kitty');
  await shows(p, 'old');
  await p.click('.screen');
  await p.keyboard.press('Shift+Enter');
  await shows(p, '^M');
  await shows(p, 'new');
  await until('the page knows', () => p.evaluate(() => document.querySelector('.screen').trlScreen.kitty));
  for (const k of ['Shift+Enter', 'Control+Backspace', 'Escape', 'a', 'Enter']) await p.keyboard.press(k);
  await shows(p, '^[[13;2u^[[127;5u^[[27ua^M');
  await end(p, id);
});

test('a terminal that is hidden for a minute is detached, and goes on where it was', { skip: missing }, async () => {
  const id = make('away', 'sh', '-c', 'echo first; cat');
  const context = await b.newContext({ viewport: { width: 1280, height: 800 } });
  await context.addInitScript(() => localStorage.setItem('trl.prefs', '{"plain":true}'));
  const types = [];
  context.on('page', (x) => x.on('websocket', (ws) => ws.on('framereceived', (f) => types.push(JSON.parse(f.payload).type))));
  const p = await page(b, d, { to: 'away', context });
  await shows(p, 'first');
  const viewers = () => d.call('session.info', { session_id: id }).terminal.viewers;
  assert.equal(viewers(), 1);
  await p.clock.install();
  await hide(p, true);
  await p.clock.fastForward(30_000);
  assert.equal(viewers(), 1);
  await p.clock.fastForward(31_000);
  await until('it is detached', () => viewers() === 0);
  d.call('session.input', { session_id: id, text: 'meanwhile', keys: ['enter'] });
  await until('it was printed', () => screenOf(id).includes('meanwhile'));
  assert.ok(!(await screen(p)).rows.some((r) => r.includes('meanwhile')));
  await hide(p, false);
  await p.clock.fastForward(1_000);
  await shows(p, 'meanwhile');
  await sameScreen(p, d, id);
  assert.equal(viewers(), 1);
  assert.equal(types.filter((t) => t === 'snapshot').length, 1, 'it was drawn anew');
  await end(p, id);
});
