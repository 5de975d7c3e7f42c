import { accessSync, constants, existsSync, lstatSync, readFileSync, statSync, type Stats } from "node:fs";
import { userInfo } from "node:os";
import { dirname, isAbsolute, join } from "node:path";

/**
 * Where the daemon of this user listens: $TRL_SOCKET_PATH; else trl/trl.sock in /run/user/<uid>,
 * or /tmp/trl-<uid>/trl.sock, or where the daemon that uses the state directory listens,
 * whichever exists. Other variables do not matter: callers with different environments must
 * find the same daemon.
 */
export function defaultSocket(): string {
  const { TRL_SOCKET_PATH: path } = process.env;
  if (path) return path;
  const paths = [`/tmp/trl-${uid()}/trl.sock`];
  const login = `/run/user/${uid()}`;
  const info = look(() => lstatSync(login));
  if (info?.isDirectory() && info.uid === uid() && (info.mode & 0o022) === 0) paths.unshift(`${login}/trl/trl.sock`);
  const holder = lockHolder()?.socket;
  const found = [...paths, ...(holder ? [holder] : [])].find((p) => look(() => statSync(p))?.isSocket());
  return found ?? paths[0]!;
}

/** Whether the last daemon of this user was stopped on purpose. One that crashed was not. */
export function wasStopped(): boolean {
  return lockHolder()?.stopping ?? false;
}

/** Throws for a socket of another user, which would receive commands and variables. Root is trusted. */
export function checkSocket(path: string): void {
  const owner = look(() => statSync(path))?.uid ?? uid();
  if (owner === uid() || owner === 0) return;
  throw new Error(`belongs to another user: to uid ${owner}, and you are uid ${uid()}`);
}

function uid(): number {
  return process.getuid?.() ?? 0;
}

function look(stat: () => Stats): Stats | undefined {
  try {
    return stat();
  } catch {
    return undefined; // the attempt to connect reports the reason
  }
}

function stateDir(): string {
  const { TRL_STATE_DIR: dir, HOME: home } = process.env;
  if (dir) return dir;
  const account = accountHome();
  if (account && account !== "/" && usableHome(account) && creatable(stateIn(account))) return stateIn(account);
  for (const place of [home, account]) if (place && usableHome(place)) return stateIn(place);
  return `/tmp/trl-${uid()}/state`;
}

function stateIn(home: string): string {
  return join(home, ".local", "state", "trl");
}

/** The home directory in the user database. The daemon reads no other than /etc/passwd on Linux. */
function accountHome(): string | undefined {
  try {
    if (process.platform !== "linux") return userInfo().homedir;
    const lines = readFileSync("/etc/passwd", "utf8").split("\n");
    const users = lines.map((line) => line.trim().split(":")).filter((fields) => fields.length === 7 && /^[^#+-]/.test(fields[0]!));
    return users.find((fields) => fields[2] === String(uid()))?.[5];
  } catch {
    return undefined; // not in the user database
  }
}

function creatable(directory: string): boolean {
  while (!existsSync(directory)) directory = dirname(directory);
  return allowed(directory);
}

function usableHome(home: string): boolean {
  const info = look(() => statSync(home));
  if (!isAbsolute(home) || !info?.isDirectory()) return false;
  return info.uid === uid() || (uid() !== 0 && allowed(home));
}

function allowed(directory: string): boolean {
  try {
    accessSync(directory, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** What the last holder of the state directory's lock wrote into it: its state, and the socket, if it listens on one. */
function lockHolder(): { stopping: boolean; socket: string | undefined } | undefined {
  const path = join(stateDir(), "lock");
  try {
    if (lstatSync(path).uid !== uid()) return undefined;
    const [, word, socket] = /^(running|stopping) \d+(?: (.+))?$/m.exec(readFileSync(path, "utf8")) ?? [];
    return word === undefined ? undefined : { stopping: word === "stopping", socket };
  } catch {
    return undefined;
  }
}
