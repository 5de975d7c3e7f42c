// What the tests start ends with them, also when they are killed.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { unbuilt, until } from './harness.mjs';

// A test that starts a daemon with a session, and maybe kills the daemon; then it hangs.
const hangs = `
import { readFileSync } from 'node:fs';
import { Daemon, until } from ${JSON.stringify(new URL('harness.mjs', import.meta.url).href)};
const d = await Daemon.start();
d.call('session.create', { kind: 'terminal', working_dir: d.dir, command: ['sh', '-c', 'echo $PPID $$ end >pids; exec sleep 100000'] });
const pids = await until('the session runs', () => readFileSync(d.dir + '/pids', 'utf8').split(' end')[0].split(' ').map(Number));
if (process.argv[1] === 'kill') await d.kill();
console.log(JSON.stringify({ dir: d.dir, pids: [d.process.pid, ...pids] }));
setInterval(() => undefined, 1000);
`;

function alive(pid) {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

for (const [how, arg] of [['while its daemon runs', ''], ['after its daemon was killed', 'kill']]) {
  test(`a test that is killed ${how} leaves nothing`, { skip: unbuilt }, async () => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', hangs, arg], { stdio: ['ignore', 'pipe', 'inherit'] });
    let out = '';
    child.stdout.on('data', (b) => (out += b));
    const { dir, pids } = JSON.parse(await until('the session runs', () => out.endsWith('\n') && out));
    child.kill('SIGKILL');
    await until('all processes have ended', () => !pids.some(alive) && !existsSync(dir));
  });
}
