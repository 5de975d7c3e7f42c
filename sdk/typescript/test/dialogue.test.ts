import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { connect, TrlError, type DialogueEvent, type DialogueOptions } from "@trl-dev/trl";
import { Daemon, eventually } from "./daemon.js";

/** A program that speaks as Claude Code does, and does what its messages say. */
const agent = resolve(process.env["TRL_TEST_AGENT"] ?? resolve(dirname(fileURLToPath(import.meta.url)), "../../../build/fakeagent"));

if (!existsSync(agent)) throw new Error(`${agent}: not there; run sdk/test.sh, or set TRL_TEST_AGENT`);

const fake: DialogueOptions = { agent: "claude", argv: [agent], workingDir: "/tmp" };

function code(expected: string): (error: unknown) => boolean {
  return (error) => error instanceof TrlError && error.code === expected;
}

/** Follows a dialogue until what is waited for has happened, and returns all of it. */
async function follow(events: AsyncIterable<DialogueEvent>, last: (event: DialogueEvent) => boolean): Promise<DialogueEvent[]> {
  const all: DialogueEvent[] = [];
  for await (const event of events) {
    all.push(event);
    if (last(event)) return all;
  }
  throw new Error(`the stream ended before; it had ${all.map((event) => event.type).join(" ")}`);
}

test("a message is answered, and the transcript has both", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const d = await trl.dialogue({ ...fake, name: "first", tags: ["mine"] });
  assert.match(d.id, /^d-/);
  assert.deepEqual([d.created.name, d.created.agent, d.created.tags], ["first", "claude", ["mine"]]);
  const reply = await d.sendAndWait("say hello there");
  assert.equal(reply.turn?.outcome, "completed");
  assert.equal(reply.text, "hello there");
  assert.deepEqual(reply.requests, []);
  const { items, turns } = await d.transcript();
  assert.deepEqual(items.map((item) => [item.kind, item.parts?.[0]?.text]), [["user", "say hello there"], ["agent", "hello there"]]);
  assert.deepEqual(turns.map((turn) => turn.turnId), [reply.turn?.turnId]);
  assert.equal((await trl.findDialogue("first")).id, d.id);
  assert.deepEqual((await trl.call("dialogue.list", { tags: ["mine"] })).dialogues.map((info) => info.dialogueId), [d.id]);
  const written: Uint8Array[] = [];
  for await (const piece of d.raw()) written.push(piece);
  assert.match(Buffer.concat(written).toString(), /"hello there"/);
  const end = await d.terminate();
  assert.deepEqual([end.state, end.ended?.cause], ["ended", "closed"]);
  await assert.rejects(d.send("late"), code("DIALOGUE_ENDED"));
});

test("a request waits, is answered once, and the turn goes on", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  await using d = await trl.dialogue(fake);
  const asked = await d.sendAndWait("ask Bash rm -r build; say done");
  assert.equal(asked.turn, undefined);
  assert.deepEqual(asked.requests.map((request) => [request.kind, request.tool, request.subject]), [["permission", "Bash", "rm -r build"]]);
  assert.deepEqual((asked.requests[0]!.input as { command: string }).command, "rm -r build", "what an agent says is not renamed");
  assert.equal((await d.info()).state, "requires_action");
  await d.allow(asked.requests[0]!);
  await assert.rejects(d.deny(asked.requests[0]!), code("CONFLICT"));
  const done = await d.wait(asked);
  assert.deepEqual([done.turn?.outcome, done.text], ["completed", "done"]);
  const call = (await d.transcript()).items.find((item) => item.kind === "tool_call");
  assert.deepEqual([call?.tool?.name, call?.tool?.status], ["Bash", "completed"]);

  await d.set({ policy: { rules: [{ tool: "Bash", pattern: "ls *", action: "allow" }, { tool: "*", action: "deny", message: "not here" }] } });
  const ruled = await d.sendAndWait("ask Bash ls -l; ask Write /etc/passwd; say after");
  assert.deepEqual([ruled.requests, ruled.turn?.outcome], [[], "completed"]);
  assert.deepEqual((await d.transcript()).requests.map((request) => [request.decision, request.by]), [
    ["allow", "client"], ["allow", "policy"], ["deny", "policy"],
  ]);
});

test("an agent that speaks ACP is the same", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  await using d = await trl.dialogue({ ...fake, agent: "acp", argv: [agent, "-acp"] });
  const asked = await d.sendAndWait("ask Bash make; say done");
  await d.allow(asked.requests[0]!);
  assert.equal((await d.wait(asked)).turn?.outcome, "completed");
  assert.deepEqual((await d.transcript()).items.map((item) => item.kind), ["user", "tool_call", "agent"]);
});

test("a turn is interrupted, and the dialogue goes on", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  await using d = await trl.dialogue(fake);
  const sent = await d.send("say working; hang");
  await follow(d.events(), (event) => event.type === "item" && event.item?.kind === "agent" && event.item.status === "final");
  await d.interrupt();
  assert.equal((await d.wait(sent)).turn?.outcome, "interrupted");
  assert.equal((await d.sendAndWait("say again")).text, "again");
});

test("a message with the id of an earlier one is not sent", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  await using d = await trl.dialogue(fake);
  const first = await d.send("say once");
  const second = await d.send("say once", { messageId: first.messageId });
  assert.deepEqual([second.repeated, second.messageId, second.seq], [true, first.messageId, first.seq]);
  await d.wait(first);
  assert.equal((await d.transcript()).turns.length, 1);
});

test("events outlive a daemon that is killed, each once", async (t) => {
  const daemon = await Daemon.start(t);
  const trl = await daemon.connect(t);
  const d = await trl.dialogue(fake);
  const events = d.events();
  const seen: DialogueEvent[] = [];
  let restarts = Promise.resolve();
  const script = Array.from({ length: 60 }, (_, i) => `say line ${i}; silence 10ms`).join("; ");
  const sent = await d.send(script);
  let texts = 0;
  for await (const event of events) {
    seen.push(event);
    if (event.type === "item" && event.item?.kind === "agent" && event.item.status === "final" && ++texts % 20 === 10) {
      await restarts;
      await daemon.kill();
      restarts = daemon.restart(); // the stream waits for it
    }
    if (event.type === "turn_ended" && event.turn?.messages?.includes(sent.messageId)) break;
  }
  await restarts;
  assert.deepEqual(seen.map((event) => event.seq), seen.map((_, i) => i + 1));
  const all: DialogueEvent[] = [];
  for await (const event of d.events({ noFollow: true })) all.push(event);
  assert.deepEqual(seen, all.slice(0, seen.length));
  assert.equal(texts, 60);
  await d.terminate();
});

test("an agent that died is resumed in the same dialogue", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  await using d = await trl.dialogue(fake);
  assert.equal((await d.sendAndWait("say before")).text, "before");
  const died = await d.sendAndWait("kill9");
  assert.deepEqual([died.ended?.cause, died.ended?.signal], ["unexpected_exit", "SIGKILL"]);
  await eventually(async () => (await d.info()).state === "ended");
  const again = await d.resume();
  assert.deepEqual([again.dialogueId, again.epoch], [d.id, 2]);
  assert.equal((await d.sendAndWait("say after")).text, "after");
  const said = (await d.transcript()).items.filter((item) => item.kind === "agent").map((item) => item.parts?.[0]?.text);
  assert.deepEqual(said, ["before", "after"]);
});

test("the same over HTTP", async (t) => {
  const { url, token } = await Daemon.startHTTP(t);
  await using trl = await connect({ url, token });
  await using d = await trl.dialogue(fake);
  const asked = await d.sendAndWait("ask Bash make; say over HTTP");
  await d.allow(asked.requests[0]!);
  assert.equal((await d.wait(asked)).text, "over HTTP");
});

test("what cannot be is an error with a code", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  await assert.rejects(trl.findDialogue("d-none"), code("DIALOGUE_NOT_FOUND"));
  await assert.rejects(trl.dialogue({ agent: "nobody" }), code("INVALID_PARAMS"));
  await assert.rejects(trl.dialogue({ ...fake, argv: [agent, "-fail", "no licence"] }), (error: unknown) => {
    assert.ok(error instanceof TrlError);
    assert.equal(error.code, "AGENT_FAILED");
    assert.match(String(error.details["stderr"]), /no licence/);
    return true;
  });
  assert.deepEqual((await trl.call("session.list")).sessions, []);
});

