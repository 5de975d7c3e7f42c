import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import test from "node:test";
import { promisify } from "node:util";
import { binary, Daemon } from "./daemon.js";

/** Runs a program in a process of its own; it must end by itself. */
async function ends(code: string): Promise<string> {
  const program = `import { connect } from "@trl-dev/trl"; ${code}`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", program], { timeout: 60_000 });
  return stdout;
}

test("a program that forgets to close its client ends all the same", async (t) => {
  const { daemon, ...http } = await Daemon.startHTTP(t);
  const { socket, env } = daemon;
  const used = `
    const s = await trl.session();
    await s.run("true");
    for await (const item of s.stream("seq 100000")) if (item.type === "exit") console.log(item.exitCode);
    for await (const item of s.stream("seq 100000")) break;
    const again = s.stream("sleep 1000", { wait: true });
    await again.execId();
    again.close();`;
  assert.equal(await ends(`const trl = await connect({ socket: ${JSON.stringify(socket)} }); ${used}`), "0\n");
  assert.equal(await ends(`const trl = await connect(${JSON.stringify(http)}); ${used}`), "0\n");
  const stdio = ["env", ...Object.entries(env).map(([key, value]) => `${key}=${value}`), "TRL_STATE_DIR=" + env["TRL_STATE_DIR"] + "2", binary, "serve", "--stdio"];
  assert.equal(await ends(`const trl = await connect({ stdio: ${JSON.stringify(stdio)} }); ${used}`), "0\n");
});

test("what is waited for keeps a program alive", async (t) => {
  const { socket } = await Daemon.start(t);
  const program = `
    const trl = await connect({ socket: ${JSON.stringify(socket)} });
    const s = await trl.session();
    console.log((await s.run("sleep 0.5; echo run")).stdout);
    for await (const item of s.stream("sleep 0.5; echo stream")) if (item.type === "stdout") console.log(item.data);
    const x = await s.start("sleep 0.5");
    console.log((await x.wait()).reason);`;
  assert.equal(await ends(program), "run\n\nstream\n\nexit\n");
});
