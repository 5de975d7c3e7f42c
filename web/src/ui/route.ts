// Routes are behind the #, so that ids of sessions reach no log of a server.
import { signal } from '@preact/signals';

export interface Route { path: string[]; query: URLSearchParams }

function read(): Route {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?', 2);
  return { path: (path ?? '').split('/').filter(Boolean).map(decode), query: new URLSearchParams(query ?? '') };
}

function decode(s: string): string {
  try {
    return decodeURIComponent(s);
  } catch {
    return s;
  }
}

export const route = signal<Route>(read());
addEventListener('hashchange', () => (route.value = read()));

export function href(...path: string[]): string { return '#/' + path.map(encodeURIComponent).join('/'); }
export function go(...path: string[]): void { location.hash = href(...path); }

/** Replaces a part of the query without a new entry in the history. */
export function setQuery(name: string, value: string): void {
  const q = new URLSearchParams(route.value.query);
  if (value) q.set(name, value);
  else q.delete(name);
  const text = q.toString();
  history.replaceState(null, '', href(...route.value.path) + (text ? '?' + text : ''));
  route.value = read();
}
