// Runs the real daemon for tests, in directories of its own.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import type { Readable } from "node:stream";
import type { TestContext } from "node:test";
import { connect, type SocketOptions, type Trl } from "@trl-dev/trl";

/** The trl that is tested: $TRL_TEST_BIN, else what `make build` makes. */
export const binary = resolve(process.env["TRL_TEST_BIN"] ?? join(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "../../../bin/trl"));

if (!existsSync(binary)) throw new Error(`${binary}: not there; run make build, or set TRL_TEST_BIN`);

export class Daemon {
  readonly socket: string;
  readonly stateDir: string;
  readonly env: Record<string, string>;
  #root: string;
  #args: string[];
  #child: ChildProcess | undefined;
  #log = "";

  private constructor(root: string, args: string[]) {
    this.#root = root;
    this.#args = args;
    this.socket = join(root, "run", "trl.sock");
    this.stateDir = join(root, "state");
    this.env = {
      PATH: process.env["PATH"] ?? "",
      HOME: join(root, "home"),
      LANG: "C.UTF-8",
      TRL_RUNTIME_DIR: join(root, "sessions"),
      TRL_STATE_DIR: this.stateDir,
    };
  }

  /** Starts a daemon that lives as long as the test. */
  static async start(t: TestContext, ...args: string[]): Promise<Daemon> {
    const daemon = new Daemon(await mkdtemp("/tmp/trl-ts-"), args); // os.tmpdir may be too long for a socket
    t.after(() => daemon.stop());
    await mkdir(join(daemon.#root, "home"));
    await daemon.restart();
    return daemon;
  }

  /** Starts a daemon that serves HTTP too, at an address that stays over a restart. */
  static async startHTTP(t: TestContext, ...args: string[]): Promise<{ daemon: Daemon; url: string; token: string }> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.close();
    const daemon = await Daemon.start(t, "--http", address, ...args);
    return { daemon, url: `http://${address}`, token: await daemon.token() };
  }

  /** Starts the process again, with the same directories. */
  async restart(): Promise<void> {
    const child = spawn(binary, ["serve", "--socket", this.socket, "--ready-fd", "3", ...this.#args], {
      env: this.env,
      stdio: ["ignore", "ignore", "pipe", "pipe"],
    });
    this.#child = child;
    child.stderr!.setEncoding("utf8").on("data", (text: string) => (this.#log += text));
    // Runners inherit it and may outlive the daemon; it must not keep the test alive.
    (child.stderr as unknown as { unref(): void }).unref();
    for await (const chunk of child.stdio[3] as Readable) if (String(chunk).includes("ready")) return;
    throw new Error(`the daemon did not start:\n${this.#log}`);
  }

  /** kill -9: the daemon has no time for anything. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  /** SIGTERM: the daemon ends in order. */
  async terminate(): Promise<void> {
    await this.#end("SIGTERM");
  }

  /** Ends the daemon and its sessions. */
  async stop(): Promise<void> {
    if (!this.#child) await this.restart(); // somebody has to end the sessions
    const trl = await connect({ socket: this.socket });
    const { sessions } = await trl.call("session.list");
    await Promise.all(sessions.map(({ sessionId }) => trl.call("session.destroy", { sessionId, force: true })));
    await trl.close();
    await this.#end("SIGTERM");
    await rm(this.#root, { recursive: true, force: true });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill(signal);
    await exited;
  }

  /** A client that is closed at the end of the test. */
  async connect(t: TestContext, options: SocketOptions = {}): Promise<Trl> {
    const trl = await connect({ socket: this.socket, ...options });
    t.after(() => trl.close());
    return trl;
  }

  /** The first token of its file. */
  async token(): Promise<string> {
    const lines = (await readFile(join(this.stateDir, "token"), "utf8")).split("\n").filter((line) => line && !line.startsWith("#"));
    return lines[0]!.split(" ").at(-1)!;
  }

  /** Replaces all tokens by another one, and returns the first of the old ones. */
  async replaceToken(token = "another-token-than-before"): Promise<string> {
    const was = await this.token();
    await writeFile(join(this.stateDir, "token"), token + "\n", { mode: 0o600 });
    return was;
  }
}

/** Waits until f returns something that is not undefined or false. */
export async function eventually<T>(f: () => Promise<T | undefined | false>): Promise<T> {
  for (let tries = 0; tries < 3000; tries++) {
    const value = await f();
    if (value !== undefined && value !== false) return value;
    await new Promise((wake) => setTimeout(wake, 10));
  }
  throw new Error("it never happened");
}
