import assert from "node:assert/strict";
import { chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { connect, ConnectionLostError, defaultSocket } from "@trl-dev/trl";

/** Runs f in a directory with a server that listens in it. */
async function listening(f: (dir: string, path: string, connections: () => number) => Promise<void>): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), "trl"));
  let connections = 0;
  const server = createServer((socket) => {
    connections++;
    socket.destroy();
  });
  try {
    const path = join(dir, "a b.sock");
    await new Promise<void>((resolve) => server.listen(path, resolve));
    await f(dir, path, () => connections);
  } finally {
    server.close();
    rmSync(dir, { recursive: true });
  }
}

test("the default socket follows from the user id, and from the lock of the state directory", async () => {
  await listening(async (dir, path) => {
    const before = { ...process.env };
    try {
      process.env.TRL_SOCKET_PATH = "/a/b";
      assert.equal(defaultSocket(), "/a/b");
      delete process.env.TRL_SOCKET_PATH;
      process.env.TRL_STATE_DIR = dir;
      const fallback = defaultSocket();
      process.env.XDG_RUNTIME_DIR = dir;
      assert.equal(defaultSocket(), fallback);
      writeFileSync(join(dir, "lock"), `running 1 ${path}\n`);
      assert.ok([path, fallback].includes(defaultSocket()), "one at the default place goes first");
    } finally {
      process.env = before;
    }
  });
});

const { homedir } = userInfo();
const homeless = homedir === "/" || !existsSync(homedir);
test("the lock is not where variables say", { skip: homeless && "HOME counts without a home directory in the user database" }, async () => {
  await listening(async (dir, path) => {
    const before = { ...process.env };
    try {
      for (const name of ["TRL_SOCKET_PATH", "TRL_STATE_DIR"]) delete process.env[name];
      const fallback = defaultSocket();
      process.env.XDG_STATE_HOME = dir;
      process.env.HOME = dir;
      for (const state of [join(dir, "trl"), join(dir, ".local/state/trl")]) {
        mkdirSync(state, { recursive: true });
        writeFileSync(join(state, "lock"), `running 1 ${path}\n`);
      }
      assert.equal(defaultSocket(), fallback);
    } finally {
      process.env = before;
    }
  });
});

test("the socket of another user is refused", { skip: process.getuid?.() !== 0 && "only root can make one" }, async () => {
  await listening(async (_, path, connections) => {
    chownSync(path, 65534, 65534);
    await assert.rejects(
      () => connect({ socket: path }),
      (error) => error instanceof ConnectionLostError && /belongs to another user: to uid 65534/.test(error.message),
    );
    assert.equal(connections(), 0);
  });
});
