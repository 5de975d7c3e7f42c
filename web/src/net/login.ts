// The login of this browser: a cookie that no script can read, and this key. Both are needed.
import { signal } from '@preact/signals';

export interface Me { login_id: string; scope: 'full' | 'read'; only: { session_id?: string; dialogue_id?: string } | null; expires_at: string; version: string; assets: string; host: string }

const KEY = 'trl.key';

/** What is known about the login: undefined before the first answer, null when there is none. */
export const me = signal<Me | null | undefined>(undefined);
/** The route of the one thing that a share shows. It stays when the share is over; other logins have none. */
export const shared = signal<readonly [kind: 's' | 'd', id: string] | undefined>(undefined);
/** Whether this browser alone was logged out of its share, which goes on. */
export const leftShare = signal(false);
/** Why the last login did not work. */
export const loginError = signal('');

export function key(): string {
  try {
    return localStorage.getItem(KEY) ?? '';
  } catch {
    return '';
  }
}

export class HTTPError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

/** Calls one of the addresses below /web/. */
export async function web<T>(path: string, body: object): Promise<T> {
  const r = await fetch('/web/' + path, {
    method: 'POST', credentials: 'same-origin', cache: 'no-store', redirect: 'error',
    headers: { 'Content-Type': 'application/json', 'X-Trl-Key': key() }, body: JSON.stringify(body),
  });
  const answer = await r.json().catch(() => ({}));
  if (!r.ok) throw new HTTPError(r.status, answer?.error?.message ?? `HTTP status ${r.status}`);
  return answer as T;
}

/** Exchanges a code or a token for a login. */
export async function logIn(secret: { code: string } | { token: string }): Promise<boolean> {
  try {
    const r = await web<{ key: string }>('login', secret);
    localStorage.setItem(KEY, r.key);
    loginError.value = '';
  } catch (e) {
    loginError.value = (e as Error).message;
  }
  await refreshMe();
  return me.value != null;
}

/** Asks who is logged in. It throws when the daemon cannot be reached. */
export async function refreshMe(): Promise<void> {
  try {
    const now = await web<Me>('me', {});
    const { session_id: s, dialogue_id: d } = now.only ?? {};
    shared.value = s ? ['s', s] : d ? ['d', d] : undefined;
    leftShare.value = false;
    me.value = now;
  } catch (e) {
    if (!(e instanceof HTTPError) || (e.status !== 401 && e.status !== 403)) throw e;
    me.value = null;
  }
}

export async function logOut(): Promise<void> {
  await web('logout', {});
  localStorage.removeItem(KEY);
  me.value = null;
}

/** Saves the bytes at a path of the API as a file. */
export async function download(path: string, filename: string): Promise<void> {
  const { url } = await web<{ url: string }>('ticket', { path, filename });
  const a = document.createElement('a');
  a.href = url;
  a.download = filename;
  a.click();
}
