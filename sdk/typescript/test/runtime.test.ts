import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { RuntimeUnavailableError, TrlError, type SessionOptions, type Trl } from "@trl-dev/trl";
import { Daemon } from "./daemon.js";

/** Uses a session in a place as one on the host. */
async function use(trl: Trl, runtime: string, place: NonNullable<SessionOptions["place"]>): Promise<void> {
  const s = await trl.session({ runtime, place, env: { some_Key: "v" } });
  assert.equal(s.created.runtime, runtime);
  assert.equal(s.created.place?.kind, runtime.split(":")[0]);
  await s.run("cd /tmp; x=kept");
  const r = await s.run('echo "$PWD $x $some_Key"; echo err >&2; exit 3');
  assert.deepEqual([r.stdout, r.stderr, r.exitCode], ["/tmp kept v\n", "err\n", 3]);
  const beside = await trl.session({ beside: s.id });
  assert.deepEqual(beside.created.place, s.created.place);
  await beside.destroy();
  let text = "";
  for await (const event of s.stream("for i in 1 2 3; do echo $i; done")) if (event.type === "stdout") text += event.data;
  assert.equal(text, "1\n2\n3\n");
  assert.equal((await s.destroy()).state, "terminated");
}

test("a session on another daemon", async (t) => {
  const far = await Daemon.start(t, "--grpc", "127.0.0.1:0");
  const { grpc } = await (await far.connect(t)).call("system.info");
  const tokenFile = join(far.stateDir, "token-alone");
  writeFileSync(tokenFile, (await far.token()) + "\n", { mode: 0o600 });
  const trl = await (await Daemon.start(t)).connect(t);
  await use(trl, `trl:${grpc}`, { tokenFile });
});

test("a place that cannot be had is an error that says why", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  await assert.rejects(trl.session({ runtime: "docker:alpine", place: { engine: "unix:///no/such.sock" } }), (e) => e instanceof RuntimeUnavailableError && /no\/such.sock/.test(e.message));
  await assert.rejects(trl.session({ runtime: "moon:base" }), (e) => e instanceof TrlError && e.code === "INVALID_PARAMS" && /moon/.test(e.message));
});

// $TRL_TEST_IMAGE is an image, with a shell, of the engine that $DOCKER_HOST names.
const image = process.env["TRL_TEST_IMAGE"];
const missing = "SKIPPED: TRL_TEST_IMAGE names no image; a session in a container is not tested with the TypeScript SDK";
if (!image) console.error(missing);

test("a session in a container", { skip: !image && missing }, async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  await use(trl, `docker:${image}`, { engine: process.env["DOCKER_HOST"] ?? "unix:///var/run/docker.sock", network: "none" });
});
