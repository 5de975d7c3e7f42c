import { spawn } from "node:child_process";
import { createConnection, type Socket } from "node:net";
import { LineConnection } from "./connection.js";
import { ConnectionLostError, reason } from "./errors.js";
import { checkSocket, wasStopped } from "./place.js";
import { stopped } from "./reconnect.js";
import { onAbort, type Pushes, type Transport, type WireRequest } from "./transport.js";

/** How long a daemon on stdio may take to end its sessions before it is killed. */
const closeGraceMs = 15_000;

/** How long a daemon may take to serve. */
const startTimeoutMs = 30_000;

/** A daemon behind a unix socket. Calls share one connection; every stream has its own. */
export class SocketTransport implements Transport {
  readonly reconnects = true;
  readonly ties = true;
  onLost: (() => void) | undefined;
  #path: string;
  #start: boolean | undefined;
  #starting: Promise<string> | undefined;
  #shared: LineConnection | undefined;
  #dialing: Promise<LineConnection> | undefined; // of #shared
  #dialsAgain = false; // whether #dialing resumes earlier work, for which no stopped daemon is replaced
  #own = new Set<LineConnection>();
  #closed = false;

  /** With `start`, it starts a daemon if none listens; but after `trl stop` only for a new request. Only the error differs between false and undefined. */
  constructor(path: string, start?: boolean) {
    this.#path = path;
    this.#start = start;
  }

  async call(request: WireRequest, signal: AbortSignal | undefined, tied: boolean, again = false): Promise<unknown> {
    if (!tied || !signal) return (await this.#share(again)).call(request, signal);
    const connection = await this.#dialOwn(signal, again);
    try {
      return await connection.call(request, signal);
    } finally {
      this.#giveUp(connection);
    }
  }

  async open(request: WireRequest, signal: AbortSignal | undefined, again = false): Promise<Pushes> {
    const connection = await this.#dialOwn(signal, again);
    try {
      return await connection.open(request, signal, () => this.#giveUp(connection));
    } catch (error) {
      this.#giveUp(connection);
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#dialing?.catch(() => undefined);
    for (const connection of [this.#shared, ...this.#own]) connection?.lose("closed by this side");
  }

  /** The connection of all calls, a new one if it was lost. */
  async #share(again: boolean): Promise<LineConnection> {
    while (this.#dialing && this.#dialsAgain && !again) await this.#dialing.catch(() => undefined); // it may not start a daemon
    if (this.#shared && !this.#shared.isLost) return this.#shared;
    if (!this.#dialing) {
      this.#dialsAgain = again;
      this.#dialing = this.#dialShared(again).finally(() => (this.#dialing = undefined));
    }
    return this.#dialing;
  }

  async #dialShared(again: boolean): Promise<LineConnection> {
    const connection = (this.#shared = await this.#dial(undefined, again));
    connection.onLost = () => {
      if (!this.#closed) this.onLost?.();
    };
    return connection;
  }

  async #dialOwn(signal: AbortSignal | undefined, again: boolean): Promise<LineConnection> {
    signal?.throwIfAborted();
    const connection = await this.#dial(signal, again);
    this.#own.add(connection);
    return connection;
  }

  #giveUp(connection: LineConnection): void {
    this.#own.delete(connection);
    connection.lose("closed by this side");
  }

  async #dial(signal: AbortSignal | undefined, again: boolean): Promise<LineConnection> {
    try {
      return await this.#connect(signal);
    } catch (error) {
      if (this.#closed || !isAbsent(error)) throw error;
      if (this.#start === false) throw new ConnectionLostError(`no daemon runs at ${this.#path}, and start: false forbids starting one`, false, error.cause);
      if (!this.#start) throw error;
      if (again && wasStopped()) throw new ConnectionLostError(`daemon at ${this.#path}: was stopped`, false, error, { reason: stopped });
    }
    this.#starting ??= startDaemon(this.#path).finally(() => (this.#starting = undefined));
    this.#path = await this.#starting;
    signal?.throwIfAborted();
    return this.#connect(signal);
  }

  #connect(signal?: AbortSignal): Promise<LineConnection> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(new ConnectionLostError("the client is closed", false));
      try {
        checkSocket(this.#path);
      } catch (cause) {
        return reject(new ConnectionLostError(`daemon at ${this.#path}: ${reason(cause as Error)}`, false, cause as Error));
      }
      const socket = createConnection({ path: this.#path });
      const stop = onAbort(signal, (why) => {
        socket.destroy();
        reject(why);
      });
      const fail = (cause: Error) => {
        stop();
        reject(new ConnectionLostError(`daemon at ${this.#path}: ${reason(cause)}`, false, cause));
      };
      socket.once("error", fail);
      socket.once("connect", () => {
        stop();
        socket.off("error", fail);
        if (!this.#closed) return resolve(overSocket(socket));
        socket.destroy();
        reject(new ConnectionLostError("the client is closed", false));
      });
    });
  }
}

/** Whether no daemon listens on the socket. */
function isAbsent(error: unknown): error is ConnectionLostError {
  const cause = error instanceof ConnectionLostError ? (error.cause as { code?: string } | undefined) : undefined;
  return cause?.code === "ENOENT" || cause?.code === "ECONNREFUSED";
}

/** Starts a daemon unless one runs, with the program trl on the PATH, and returns the path of its socket. */
function startDaemon(path: string): Promise<string> {
  const none = `daemon at ${path}: none is running`;
  return new Promise((resolve, reject) => {
    // In a process group of its own, or Ctrl-C on the terminal would interrupt the start halfway.
    const child = spawn("trl", ["serve", "--background"], { stdio: ["ignore", "pipe", "pipe"], detached: true, timeout: startTimeoutMs });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.once("error", (cause: NodeJS.ErrnoException) => {
      const why = cause.code === "ENOENT" ? "the program trl that starts one is not on the PATH" : `trl serve --background: ${reason(cause)}`;
      reject(new ConnectionLostError(`${none}, and ${why}`, false, cause));
    });
    child.once("close", (status) => {
      if (status === 0) resolve(stdout.replace(/\n$/, ""));
      else reject(new ConnectionLostError(`${none}, and none can be started: ${stderr.trim()}`, false));
    });
  });
}

function overSocket(socket: Socket): LineConnection {
  return new LineConnection({
    readable: socket,
    writable: socket,
    hold: (wanted) => void (wanted ? socket.ref() : socket.unref()),
    destroy: () => socket.destroy(),
  });
}

/**
 * A daemon that this process starts and speaks to over its stdin and stdout. There
 * is only this one connection, and its sessions end with it.
 */
export class StdioTransport implements Transport {
  readonly reconnects = false;
  readonly ties = true;
  #connection: LineConnection;
  #end: () => Promise<void>;

  constructor(command: readonly string[]) {
    const [program, ...args] = command;
    if (!program) throw new TypeError("stdio: the command is empty");
    const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"] });
    const gone = new Promise<void>((resolve) => {
      child.once("close", () => resolve());
      child.once("error", () => resolve());
    });
    let lastWords = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (lastWords = (lastWords + text).slice(-2000)));
    const streams = [child, child.stdin, child.stdout, child.stderr] as { ref?(): void; unref?(): void }[];
    async function* output(): AsyncGenerator<Uint8Array> {
      yield* child.stdout as AsyncIterable<Uint8Array>;
      await gone; // so that its last lines of stderr have arrived
    }
    this.#connection = new LineConnection({
      readable: output(),
      writable: child.stdin,
      hold: (wanted) => streams.forEach((stream) => (wanted ? stream.ref?.() : stream.unref?.())),
      destroy: () => child.stdin.end(),
      explain: (cause) => [cause, lastWords.trim()].filter(Boolean).join(": "),
    });
    child.once("error", (cause) => this.#connection.lose(`${program}: ${reason(cause)}`));
    this.#end = async () => {
      this.#connection.lose("closed by this side");
      streams.forEach((stream) => stream.ref?.());
      child.kill("SIGTERM"); // without a signal, the daemon would first answer all pending requests
      const timer = setTimeout(() => child.kill("SIGKILL"), closeGraceMs);
      await gone;
      clearTimeout(timer);
    };
  }

  call(request: WireRequest, signal: AbortSignal | undefined): Promise<unknown> {
    return this.#connection.call(request, signal);
  }

  open(request: WireRequest, signal: AbortSignal | undefined): Promise<Pushes> {
    return this.#connection.open(request, signal, () => {});
  }

  close(): Promise<void> {
    return this.#end();
  }
}
