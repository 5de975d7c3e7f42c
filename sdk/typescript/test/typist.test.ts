import assert from "node:assert/strict";
import test from "node:test";
import { ConnectionLostError, TrlError, Typist } from "@trl-dev/trl";

/** What a typist sent. Each call ends as the test says. */
class Calls {
  readonly sent: Record<string, unknown>[] = [];
  #ends: { resolve(): void; reject(error: unknown): void }[] = [];

  send = (input: object): Promise<void> => {
    this.sent.push({ ...input });
    return new Promise((resolve, reject) => this.#ends.push({ resolve, reject }));
  };

  /** Ends the oldest call, and lets the typist go on. */
  async end(error?: unknown): Promise<void> {
    const { resolve, reject } = this.#ends.shift()!;
    if (error) reject(error);
    else resolve();
    await new Promise((next) => setImmediate(next));
  }

  /** What was typed, without the ids. */
  get typed(): object[] {
    return this.sent.map(({ write_id: _, ...rest }) => rest);
  }
}

test("text is joined behind the call under way; keys, pastes and bytes stay as they are", async () => {
  const calls = new Calls();
  const counts: number[] = [];
  const typist: Typist = new Typist(calls.send, { onChange: () => counts.push(typist.calls) });
  const all = [typist.type("a"), typist.type("b"), typist.type("c"), typist.paste("p"), typist.type("d", "enter"), typist.keys("up"), typist.type(new Uint8Array([255])), typist.type("e")];
  assert.equal(typist.calls, 7);
  assert.equal(typist.waiting, 9);
  for (let i = 0; i < 7; i++) await calls.end();
  await Promise.all(all);
  assert.deepEqual(calls.typed, [{ text: "a" }, { text: "bc" }, { paste: "p" }, { text: "d", keys: ["enter"] }, { keys: ["up"] }, { data_base64: "/w==" }, { text: "e" }]);
  assert.equal(new Set(calls.sent.map(({ write_id }) => write_id)).size, 7);
  assert.deepEqual(counts, [1, 2, 3, 4, 5, 6, 7, 6, 5, 4, 3, 2, 1, 0]);
});

test("input that did not arrive waits, is sent again with its id, and is not changed", async () => {
  const calls = new Calls();
  const typist = new Typist(calls.send, { waits: true });
  const first = typist.type("a");
  await calls.end(new ConnectionLostError("cut", true));
  assert.equal(calls.sent.length, 1);
  void typist.type("b"); // tries again, but must not join what may have been typed
  await calls.end(new TrlError("RUNTIME_UNAVAILABLE", "the session is unreachable"));
  typist.resume();
  typist.resume();
  await calls.end();
  await first;
  await calls.end();
  assert.deepEqual(calls.typed, [{ text: "a" }, { text: "a" }, { text: "a" }, { text: "b" }]);
  assert.equal(calls.sent[0]!["write_id"], calls.sent[2]!["write_id"]);
  assert.notEqual(calls.sent[2]!["write_id"], calls.sent[3]!["write_id"]);
  assert.equal(typist.calls, 0);
});

test("refused input fails what follows, unless the caller says otherwise", async () => {
  const refused = new TrlError("SESSION_TERMINATED", "the session has ended");
  const strict = new Calls();
  const one = new Typist(strict.send);
  const behind = [one.type("a"), one.keys("enter")];
  await strict.end(refused);
  for (const typed of [...behind, one.type("later")]) await assert.rejects(typed, refused);
  void one.type("a caller that does not wait must not end the process");
  assert.equal(strict.sent.length, 1);

  const calls = new Calls();
  const errors: unknown[] = [];
  const typist = new Typist(calls.send, { onRefused: (error) => errors.push(error) });
  const a = typist.type("a");
  const b = typist.keys("enter");
  await calls.end(refused);
  await assert.rejects(a, refused);
  await calls.end();
  await b;
  assert.deepEqual(errors, [refused]);
});

test("there is room for 64 K characters behind the call under way, and for every paste", async () => {
  const calls = new Calls();
  const typist = new Typist(calls.send);
  void typist.type("x".repeat(60_000));
  assert.ok(typist.hasRoom(65_536), "what is on its way does not count");
  void typist.paste("x".repeat(100_000));
  void typist.type("x".repeat(65_000));
  assert.ok(typist.hasRoom(536));
  assert.ok(!typist.hasRoom(537));
});

test("a closed typist types nothing more", async () => {
  const calls = new Calls();
  const typist = new Typist(calls.send, { waits: true });
  const a = typist.type("a");
  const b = typist.keys("enter");
  typist.close();
  await assert.rejects(a, { code: "CANCELLED" });
  await assert.rejects(b, { code: "CANCELLED" });
  await calls.end();
  typist.resume();
  await assert.rejects(typist.type("c"), { code: "CANCELLED" });
  assert.equal(calls.sent.length, 1);
  assert.equal(typist.calls, 0);
});
