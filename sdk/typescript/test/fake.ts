// A daemon that says what a test wants.
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";
import { connect, type ReconnectOptions, type Trl } from "@trl-dev/trl";

export interface Request {
  id: string;
  method: string;
  raw?: boolean;
  params: Record<string, unknown>;
  connection: Connection;
}

export class Connection {
  readonly socket: Socket;

  constructor(socket: Socket) {
    this.socket = socket;
  }

  say(message: object): void {
    this.socket.write(JSON.stringify(message) + "\n");
  }

  answer(request: Request, data: object): void {
    this.say({ id: request.id, ok: true, data });
  }
}

/** Serves a test. Pings are answered by themselves; everything else goes to the handler. */
export async function fakeDaemon(
  t: TestContext,
  handle: (request: Request) => void,
  options: ReconnectOptions = {},
): Promise<{ trl: Trl; socket: string; requests: Request[] }> {
  const dir = await mkdtemp("/tmp/trl-fake-");
  const socket = join(dir, "s");
  const requests: Request[] = [];
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on("error", () => {}).on("close", () => open.delete(socket));
    const connection = new Connection(socket);
    createInterface({ input: socket }).on("line", (line) => {
      const request: Request = { ...(JSON.parse(line) as Omit<Request, "connection">), connection };
      if (request.method === "system.ping") return connection.answer(request, { version: "fake", uptime_s: 1 });
      requests.push(request);
      handle(request);
    });
  });
  server.listen(socket);
  await once(server, "listening");
  const trl = await connect({ socket, ...options });
  t.after(async () => {
    await trl.close();
    for (const socket of open) socket.destroy();
    server.close();
    await rm(dir, { recursive: true });
  });
  return { trl, socket, requests };
}
