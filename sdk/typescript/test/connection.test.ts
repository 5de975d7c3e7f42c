import assert from "node:assert/strict";
import test from "node:test";
import { ConnectionLostError } from "@trl-dev/trl";
import { LineConnection } from "../dist/connection.js";

/** A connection that accepts the first lines, and fails at the next. */
function failing(accepted: number): LineConnection {
  let fail: (error: Error) => void = () => {};
  const failed = new Promise<never>((_, reject) => (fail = reject));
  failed.catch(() => {});
  const readable: AsyncIterable<Uint8Array> = {
    [Symbol.asyncIterator]: () => ({ next: () => failed }),
  };
  return new LineConnection({
    readable,
    writable: {
      write: (_, done) => {
        const error = accepted-- > 0 ? undefined : new Error("write EPIPE");
        done(error);
        if (error) fail(error);
      },
    },
    hold: () => {},
    destroy: () => {},
  });
}

test("a request that could not be written was not sent", async () => {
  const connection = failing(1);
  const sent = (call: () => Promise<unknown>) => call().then(() => undefined, (error) => (error instanceof ConnectionLostError ? error.sent : error));
  const call = () => connection.call({ method: "session.create", params: {} });
  assert.deepEqual(await Promise.all([sent(call), sent(call)]), [true, false]);
  assert.equal(await sent(call), false);
});
