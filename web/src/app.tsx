// The page: logs in, connects, and shows what the route names.
import { useEffect, useState } from 'preact/hooks';
import { render } from 'preact';
import { kickAll } from './net/conn.js';
import { logIn, me, refreshMe, shared } from './net/login.js';
import { dialogueCount, waiting } from './net/dialogues.js';
import './net/watching.js';
import { control, epoch, mayWrite, sessionCount, start } from './net/sessions.js';
import { Empty, Questions, Toasts } from './ui/parts.js';
import { Keys, overlay, Palette, shortcuts } from './ui/palette.js';
import { isDark, prefer } from './ui/prefs.js';
import { href, route } from './ui/route.js';
import { DaemonPage } from './views/daemon.js';
import { DialoguePage } from './views/dialogue.js';
import { DialoguesPage, NewDialogue } from './views/dialogues.js';
import { EventsPage } from './views/events.js';
import { InspectorPage } from './views/inspector.js';
import { LogPage } from './views/log.js';
import { LoginPage } from './views/login.js';
import { PlayerPage } from './views/player.js';
import { RecordingsPage } from './views/recordings.js';
import { InboxPage } from './views/requests.js';
import { SessionPage } from './views/session.js';
import { NewSession, SessionsPage } from './views/sessions.js';
import { SettingsPage } from './views/settings.js';
import { ShareDialog } from './views/share.js';

/** Takes the code out of the address before anything else happens, and spends it. */
async function boot(): Promise<void> {
  const { path, query } = route.value;
  if (path[0] === 'login' && path[1]) {
    const to = query.get('to') ?? '/';
    history.replaceState(null, '', '/#' + (/^\/[\w./-]*$/.test(to) ? to : '/'));
    dispatchEvent(new HashChangeEvent('hashchange'));
    await logIn({ code: path[1] }).catch(() => undefined);
  }
  for (let pause = 200; me.value === undefined; pause = Math.min(pause * 2, 5000)) {
    await refreshMe().catch(() => undefined);
    if (me.value === undefined) await new Promise((f) => setTimeout(f, pause));
  }
  if (me.value) begin();
}

let begun = false;
function begin(): void {
  if (begun) kickAll();
  else start();
  begun = true;
}

function Banner() {
  const [, tick] = useState(0);
  const state = control.state.value;
  useEffect(() => {
    if (state === 'online') return;
    const t = setInterval(() => tick((n) => n + 1), 500);
    return () => clearInterval(t);
  }, [state]);
  const lost = control.lostAt.value;
  const assets = me.value?.assets;
  const other = assets && !document.querySelector(`script[src*="${assets}"]`);
  if (state === 'online' && other) return <div class="banner" role="status">The daemon has a new version of this page. <button class="small" onClick={() => location.reload()}>Reload</button></div>;
  if (state === 'online' || state === 'over' || !lost) return null;
  const wait = Math.max(0, Math.ceil((control.next.value - Date.now()) / 1000));
  const long = Date.now() - lost > 30_000;
  return (
    <div class="banner warn" role="status">
      {state === 'connecting' ? 'Connecting to the daemon…' : <>No connection to the daemon<span aria-hidden="true">; next try in {wait} s</span>.</>}{long && <> Is it running? <code>trl open</code> starts it.</>}
      {' '}<button class="small" onClick={kickAll}>Try now</button>
    </div>
  );
}

/** Whether a share shows this route: its session with its commands, or its dialogue. */
function inShare([kind, id, view]: string[], [only, one]: readonly string[]): boolean {
  return (kind === only && id === one && view !== 'raw') || (kind === 'x' && only === 's' && !!id?.startsWith(`x-${one!.slice(2)}-`));
}

function View() {
  const at = route.value;
  const { path } = at;
  const home = shared.value;
  const away = home !== undefined && !inShare(path, home);
  // For every route: another one may come before the page has seen that it is back.
  useEffect(() => { if (away) location.replace(href(...home)); }, [at, away]);
  if (away) return null;
  switch (path[0]) {
    case undefined: return <SessionsPage />;
    case 's': return path[1] ? <SessionPage key={path[1]} id={path[1]} tab={path[2]} /> : <SessionsPage />;
    case 'x': return path[1] ? <LogPage key={path[1]} id={path[1]} /> : <SessionsPage />;
    case 'settings': return <SettingsPage />;
    case 'inbox': return <InboxPage />;
    case 'recordings': return <RecordingsPage />;
    case 'r': return path[1] ? <PlayerPage key={path[1]} id={path[1]} /> : <RecordingsPage />;
    case 'events': return <EventsPage />;
    case 'daemon': return <DaemonPage />;
    case 'd': return !path[1] ? <DialoguesPage /> : path[2] === 'raw' ? <InspectorPage key={path[1]} id={path[1]} /> : <DialoguePage key={path[1]} id={path[1]} item={path[2] === 'i' ? path[3] : undefined} />;
    default: return <Empty><h2>There is no such page</h2><p><a href="#/">All sessions</a></p></Empty>;
  }
}

function App() {
  const who = me.value;
  useEffect(() => {
    addEventListener('keydown', shortcuts);
    return () => removeEventListener('keydown', shortcuts);
  }, []);
  useEffect(() => { if (who) begin(); }, [who]);
  const asks = waiting.value.length;
  useEffect(() => { document.title = (asks ? `(${asks}) ` : '') + (who ? `TRL · ${who.host}` : 'TRL'); }, [who, asks]);
  // After a reconnect the daemon may be another one.
  const n = epoch.value;
  useEffect(() => { if (n > 1) void refreshMe().catch(() => undefined); }, [n]);
  if (who === undefined) return <Empty><p>Connecting…</p></Empty>;
  if (who === null && !begun) return <LoginPage over={false} />;
  if (!begun) return null;
  const at = route.value.path[0];
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById('main')?.focus(); }}>Skip to the content</a>
      <header class="top">
        <a class="logo" href={href(...(shared.value ?? []))} aria-label={shared.value ? 'TRL, what is shared' : 'TRL, all sessions'}><span aria-hidden="true">❯_</span> TRL</a>
        <span class="dim clip host">{who?.host}</span>
        {shared.value ? <span class="chip">shared with you</span> : <nav aria-label="Main">
          <a href="#/" aria-current={at === undefined || at === 's' || at === 'x' ? 'page' : undefined}>Sessions <span class="count">{sessionCount.value}</span></a>
          <a href="#/d" aria-current={at === 'd' ? 'page' : undefined}>Dialogues <span class="count">{dialogueCount.value}</span></a>
          <a href="#/inbox" aria-current={at === 'inbox' ? 'page' : undefined}>Inbox {asks > 0 && <span class="count asks">{asks}<span class="hidden"> {asks === 1 ? 'request' : 'requests'} waiting</span></span>}</a>
          <a class="wide-only" href="#/recordings" aria-current={at === 'recordings' || at === 'r' ? 'page' : undefined}>Recordings</a>
          <a class="wide-only" href="#/events" aria-current={at === 'events' ? 'page' : undefined}>Events</a>
          <a class="wide-only" href="#/daemon" aria-current={at === 'daemon' ? 'page' : undefined}>Health</a>
          <a href="#/settings" aria-current={at === 'settings' ? 'page' : undefined}>Settings</a>
        </nav>}
        <span class="grow" />
        <button class="small wide-only" onClick={() => (overlay.value = 'palette')}>Search <kbd>Ctrl K</kbd></button>
        <span class={'net ' + control.state.value} role="status"><span aria-hidden="true">{control.state.value === 'online' ? '●' : '○'}</span> <span class="wide-only">{control.state.value === 'online' ? (mayWrite.value ? 'online' : 'online · read-only') : 'offline'}</span></span>
        <button class="icon" aria-label={isDark() ? 'Light colours' : 'Dark colours'} onClick={() => prefer({ theme: isDark() ? 'light' : 'dark' })}>{isDark() ? '☀' : '☾'}</button>
      </header>
      {!isSecureContext && <div class="banner danger" role="alert">This connection is not encrypted: everyone on the way can read what is shown and typed, and use your login. There are no notifications.</div>}
      <Banner />
      <main id="main" tabIndex={-1}><View /></main>
      {overlay.value === 'palette' && <Palette />}
      {overlay.value === 'keys' && <Keys />}
      <NewSession />
      <NewDialogue />
      <ShareDialog />
      <Questions />
      <Toasts />
      {who === null && <div class="cover"><LoginPage over={true} /></div>}
    </>
  );
}

// Where the keyboard of a phone covers the page instead of making it smaller, the page becomes smaller itself.
visualViewport?.addEventListener('resize', () => {
  const { scale, height } = visualViewport!;
  const style = document.documentElement.style;
  if (scale === 1 && Math.round(height) < innerHeight) {
    style.setProperty('--height', `${height}px`);
    scrollTo(0, 0); // the browser has moved the page to show the field
  } else style.removeProperty('--height');
});

render(<App />, document.getElementById('app')!);
void boot();
// The address of a login may also be opened in a page that is there already.
addEventListener('hashchange', () => { if (route.value.path[0] === 'login') void boot(); });
