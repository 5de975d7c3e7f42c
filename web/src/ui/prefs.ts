// What a person prefers, in this browser.
import { effect, signal } from '@preact/signals';

export interface Prefs { theme: 'auto' | 'dark' | 'light'; font: number; contrast: boolean; keys: boolean; plain: boolean; line: 'auto' | 'on' | 'off'; notify: boolean; name: string; split: boolean }

const NAME = 'trl.prefs';
const standard: Prefs = { theme: 'auto', font: 14, contrast: false, keys: true, plain: false, line: 'auto', notify: false, name: '', split: false };

function stored(): Prefs {
  try {
    return { ...standard, ...(JSON.parse(localStorage.getItem(NAME) ?? '{}') as Partial<Prefs>) };
  } catch {
    return standard;
  }
}

export const prefs = signal<Prefs>(stored());
export function prefer(p: Partial<Prefs>): void { prefs.value = { ...prefs.value, ...p }; }

const light = matchMedia('(prefers-color-scheme: light)');
const system = signal(light.matches);
light.addEventListener('change', () => (system.value = light.matches));

export function isDark(): boolean { return prefs.value.theme === 'auto' ? !system.value : prefs.value.theme === 'dark'; }

/** Whether the person points with a finger. */
export const coarse = matchMedia('(pointer: coarse)').matches;
export function lineMode(): boolean { return prefs.value.line === 'auto' ? coarse : prefs.value.line === 'on'; }

/** The browser and its system in a few words. */
export function browserName(agent: string): string {
  const name = /(Firefox|Edg|OPR|Chrome|Safari)\/(\d+)/.exec(agent);
  const system = /(Android|iPhone|iPad|Windows|Mac OS X|Linux)/.exec(agent);
  return name ? `${{ Edg: 'Edge', OPR: 'Opera' }[name[1]!] ?? name[1]} ${name[2]}${system ? ` on ${system[1]}` : ''}` : agent || 'unknown browser';
}

/** The name of this page to others, for system.hello: at most 64 bytes. */
export function label(): string {
  let s = (prefs.value.name || browserName(navigator.userAgent)).replace(/[\p{C}\u2028\u2029]/gu, '').trim() || 'browser';
  while (new TextEncoder().encode(s).length > 64) s = [...s].slice(0, -1).join('');
  return s;
}

effect(() => {
  document.documentElement.dataset['theme'] = isDark() ? 'dark' : 'light';
  try {
    localStorage.setItem(NAME, JSON.stringify(prefs.value));
  } catch { /* without storage the choice lasts as long as the page */ }
});
