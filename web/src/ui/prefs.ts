// What a person prefers, in this browser.
import { effect, signal } from '@preact/signals';

export interface Prefs { theme: 'auto' | 'dark' | 'light'; font: number; contrast: boolean; keys: boolean; plain: boolean; line: 'auto' | 'on' | 'off'; notify: boolean }

const NAME = 'trl.prefs';
const standard: Prefs = { theme: 'auto', font: 14, contrast: false, keys: true, plain: false, line: 'auto', notify: false };

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

effect(() => {
  document.documentElement.dataset['theme'] = isDark() ? 'dark' : 'light';
  try {
    localStorage.setItem(NAME, JSON.stringify(prefs.value));
  } catch { /* without storage the choice lasts as long as the page */ }
});
