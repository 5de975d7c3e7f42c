import assert from "node:assert/strict";
import test from "node:test";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, ConnectionLostError } from "@trl-dev/trl";
import { binary } from "./daemon.js";

const command = ["env", `TRL_STATE_DIR=${await mkdtemp("/tmp/trl-ts-")}`, binary, "serve", "--stdio", "--output-bytes", "16777216"];
test.after(() => rm(command[1]!.split("=")[1]!, { recursive: true, force: true }));

test("a daemon on stdio is started, used and ended", async () => {
  const trl = await connect({ stdio: command });
  const { pid } = await trl.call("system.info");
  const s = await trl.session({ shell: "bash" });
  assert.equal((await s.run("cat; printf '\\xff' >&2", { stdin: "grüße" })).stdout, "grüße");
  await trl.close();
  assert.throws(() => process.kill(pid, 0), "the daemon is gone");
  await assert.rejects(s.run("true"), ConnectionLostError);
});

test("streams and calls share the pipe", async () => {
  await using trl = await connect({ stdio: command });
  const sessions = await Promise.all([trl.session(), trl.session(), trl.session()]);
  const lengths = await Promise.all(
    sessions.map(async (s, i) => {
      let length = 0;
      for await (const item of s.stream("head -c 3000000 /dev/urandom", { stream: "stdout" })) {
        if (item.type === "stdout") length += item.bytes.length;
        if (item.seq % 10 === i) assert.ok((await trl.call("system.ping")).version);
      }
      return length;
    }),
  );
  assert.deepEqual(lengths, [3_000_000, 3_000_000, 3_000_000]);
  for await (const item of sessions[0]!.stream("yes")) if (item.seq > 2) break; // what still comes is thrown away
  assert.equal((await sessions[1]!.run("echo alive")).stdout, "alive\n");
});

test("a program that cannot be started or is no daemon says so", async () => {
  await assert.rejects(connect({ stdio: ["/nonexistent/trl"] }), (error: unknown) => {
    assert.ok(error instanceof ConnectionLostError);
    assert.match(error.message, /nonexistent.*ENOENT/);
    return true;
  });
  await assert.rejects(connect({ stdio: ["sh", "-c", "echo 'no such flag' >&2; exit 1"] }), (error: unknown) => {
    assert.ok(error instanceof ConnectionLostError);
    assert.match(error.message, /no such flag/);
    return true;
  });
  await assert.rejects(connect({ stdio: [] }), TypeError);
});
