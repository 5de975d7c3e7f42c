// Tells the daemon that a person learns of requests here: the page can be seen, or it notifies. Else
// the hook on_request of the daemon does its work. The daemon believes it for five minutes.
import { effect } from '@preact/signals';
import { prefs } from '../ui/prefs.js';
import { shared } from './login.js';
import { control, epoch } from './sessions.js';

const EVERY = 120_000;

let stream = '';
let last: Promise<void> = Promise.resolve();

function watches(): boolean {
  return !document.hidden || (prefs.peek().notify && 'Notification' in window && Notification.permission === 'granted');
}

async function say(): Promise<void> {
  const before = stream;
  stream = '';
  if (epoch.peek() > 0 && !shared.peek() && watches()) stream = (await control.stream('event.subscribe', { types: ['dialogue.request_opened'] }, () => undefined)).stream_id;
  if (before) control.end(before);
}

function sayAgain(): void { last = last.then(say).catch(() => undefined); }

document.addEventListener('visibilitychange', sayAgain);
setInterval(sayAgain, EVERY);
effect(() => {
  void [epoch.value, shared.value, prefs.value.notify];
  sayAgain();
});
