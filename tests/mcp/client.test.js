// trl mcp, and /mcp of trl serve --http, with the official TypeScript client. The
// program is $TRL_TEST_BIN, or bin/trl.
import { strict as assert } from "node:assert";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const trl = process.env.TRL_TEST_BIN ?? fileURLToPath(new URL("../../bin/trl", import.meta.url));
const dir = mkdtempSync("/tmp/trl-mcp-");
const env = { PATH: process.env.PATH, HOME: dir, TRL_SOCKET_PATH: `${dir}/t.sock`, TRL_STATE_DIR: `${dir}/state`, TRL_RUNTIME_DIR: `${dir}/run` };
let daemon, url, token;

before(async () => {
  daemon = spawn(trl, ["serve", "--http", "127.0.0.1:0"], { env, stdio: ["ignore", "inherit", "pipe"] });
  for await (const line of createInterface({ input: daemon.stderr })) {
    if (line.includes("daemon started")) break;
  }
  daemon.stderr.resume();
  const info = spawnSync(trl, ["call", "system.info"], { env, encoding: "utf8" });
  url = JSON.parse(info.stdout).http;
  token = readFileSync(`${dir}/state/token`, "utf8").match(/^(?:full )?([A-Za-z0-9_-]{20,})$/m)[1];
});

after(async () => {
  daemon.kill("SIGTERM");
  const [code] = await once(daemon, "exit");
  rmSync(dir, { recursive: true });
  assert.equal(code, 0);
});

const transports = {
  stdio: () => new StdioClientTransport({ command: trl, args: ["mcp"], env }),
  http: () => new StreamableHTTPClientTransport(new URL("/mcp", url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } }),
};

for (const [name, transport] of Object.entries(transports)) {
  test(name, async (t) => {
    const client = new Client({ name: "test", version: "1" });
    await client.connect(transport());
    const call = async (tool, args, options) => {
      const r = await client.callTool({ name: tool, arguments: args }, undefined, options);
      return { text: r.content.map((c) => c.text).join(""), failed: r.isError ?? false };
    };

    await t.test("tools", async () => {
      const { tools } = await client.listTools();
      assert.deepEqual(tools.map((x) => x.name).sort(), ["cancel", "destroy", "dialogue_read", "dialogue_respond", "dialogue_send", "dialogue_start", "dialogue_stop", "input", "list", "output", "run", "start", "terminal_screen", "terminal_start", "terminal_type", "wait"]);
    });
    await t.test("a terminal's command is for bash, as every other", async () => {
      const { text } = await call("terminal_start", { command: "a=(x y); echo ${a[1]}; read" });
      assert.match(text, /^y\n/);
    });
    await t.test("the default session keeps its state", async () => {
      await call("run", { command: "cd /usr; export A=ä" });
      const { text } = await call("run", { command: "pwd; echo $A" });
      assert.match(text, /^\/usr\nä\n\[exit code 0 /);
    });
    await t.test("errors", async () => {
      const r = await call("output", { exec_id: "x-nobody-1" });
      assert.ok(r.failed && r.text.startsWith("EXEC_NOT_FOUND"), r.text);
    });
    await t.test("fields", async () => {
      await client.listTools(); // the client checks fields against the schemas
      const r = await client.callTool({ name: "run", arguments: { command: "echo out; exit 3" } });
      assert.equal(r.structuredContent.exit_code, 3);
      assert.equal(r.structuredContent.stdout, "out\n");
    });
    await t.test("background", async () => {
      const started = await call("start", { command: "read a; echo got $a", stdin: true });
      const exec_id = started.text.match(/^started (\S+)/)[1];
      await call("input", { exec_id, text: "it\n" });
      assert.match((await call("wait", { exec_id })).text, /^got it\n\[exit code 0/);
    });
    await t.test("terminals", async () => {
      const started = await call("terminal_start", { command: "sh", env: { PS1: "$ " }, cols: 50, rows: 10 });
      const id = started.text.match(/\[terminal (s-\S+), 50x10, cursor at line 1 column 3\]$/)[1];
      assert.match((await call("terminal_type", { text: "stty size", keys: ["enter"] })).text, /^\$ stty size\n10 50\n\$\n\[/);
      assert.match((await call("terminal_type", { text: "printf 'a%s\\n' b\n", match: "^ab" })).text, /; matched: ab\]$/);
      assert.match((await call("terminal_screen", { session: id })).text, /\nab\n(\$\n)?\[terminal/);
      assert.match((await call("terminal_type", { keys: ["ctrl-d"] })).text, /; the program has ended with exit code 0\]$/);
      const late = await call("terminal_type", { text: "x" });
      assert.ok(late.failed && late.text.startsWith("SESSION_TERMINATED"), late.text);
    });
    await t.test("progress and cancellation", async () => {
      const abort = new AbortController();
      const told = [];
      const running = call("run", { command: "echo busy; sleep 77.25" }, {
        signal: abort.signal,
        onprogress: (p) => { told.push(p.message); abort.abort(); },
      });
      await assert.rejects(running);
      assert.match(told[0], /^running, .*busy$/);
      assert.match((await call("run", { command: "echo free" })).text, /^free\n/); // cancelled, or it would wait
    });
    if (name === "http") await client.transport.terminateSession();
    await client.close();
  });
}

test("a wrong token", async () => {
  const client = new Client({ name: "test", version: "1" });
  const transport = new StreamableHTTPClientTransport(new URL("/mcp", url), { requestInit: { headers: { Authorization: "Bearer wrong" } } });
  await assert.rejects(client.connect(transport));
});
