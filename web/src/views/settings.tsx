// Preferences of this browser, and the logins.
import { useEffect, useState } from 'preact/hooks';
import type { WebListResult, WebLogin, WebShare } from '../../../sdk/typescript/src/types.js';
import { logOut, me } from '../net/login.js';
import { sessionLabel } from '../net/dialogues.js';
import { control, epoch, mayWrite, sessions } from '../net/sessions.js';
import { ago, askFirst, attempt, now, plain } from '../ui/parts.js';
import { href } from '../ui/route.js';
import { browserName, label, prefer, prefs, type Prefs } from '../ui/prefs.js';

export function SettingsPage() {
  const p = prefs.value;
  const choice = <K extends keyof Prefs>(name: K, label: string, options: [Prefs[K], string][]) => (
    <label class="field"><span>{label}</span><select value={String(p[name])} onChange={(e) => prefer({ [name]: options[e.currentTarget.selectedIndex]![0] } as Partial<Prefs>)}>
      {options.map(([v, t]) => <option key={t} value={String(v)}>{t}</option>)}
    </select></label>
  );
  const check = (name: 'contrast' | 'keys' | 'plain', label: string) => (
    <label class="check"><input type="checkbox" checked={p[name]} onChange={(e) => prefer({ [name]: e.currentTarget.checked })} /> {label}</label>
  );
  return (
    <section class="page scroll" aria-label="Settings">
      <h1>This browser</h1>
      {choice('theme', 'Colours', [['auto', 'same as the system'], ['dark', 'dark'], ['light', 'light']])}
      {choice('font', 'Size of terminal text', [10, 12, 13, 14, 15, 16, 18, 20, 24].map((n) => [n, `${n} px`]))}
      {choice('line', 'Input line below terminals', [['auto', 'on phones'], ['on', 'always'], ['off', 'never']])}
      <label class="field"><span>Name of this browser, for others</span><input maxLength={64} value={p.name} placeholder={browserName(navigator.userAgent)}
        onChange={(e) => { prefer({ name: e.currentTarget.value }); void attempt(() => control.call('system.hello', { label: label() })); }} /></label>
      {check('contrast', 'Raise the contrast of colours in terminals')}
      {check('plain', 'Draw terminals without WebGL')}
      {check('keys', 'Keyboard shortcuts')}
      <Logins />
      <h2>The daemon</h2>
      <p><a href="#/daemon">Health, limits and places of the daemon</a> · <a href="#/events">Events</a> · <a href="#/recordings">Recordings</a></p>
    </section>
  );
}

/** A viewer in a few words. */
function about(l: WebLogin): string { return `${plain(browserName(l.browser))} from ${l.address}`; }

function Logins() {
  const [{ logins, shares }, setAll] = useState<WebListResult>({ logins: [], shares: [] });
  const load = () => void control.call<WebListResult>('web.list').then(setAll, () => undefined);
  useEffect(load, [epoch.value, now.value]); // no event says that a browser has come or gone
  const list = logins.filter((l) => !l.share_id);
  const endShare = (h: WebShare) => askFirst({
    title: 'End this share?', text: 'Its link is no longer valid, and its viewers see nothing more.', yes: 'End the share', danger: true,
    run: () => void attempt(() => control.call('web.revoke', { login_id: h.share_id })).then(load),
  });
  const revoke = (l: WebLogin) => void attempt(() => control.call('web.revoke', { login_id: l.login_id })).then(load);
  return (
    <>
      <h2>Shares</h2>
      {shares.length === 0 ? <p class="dim">None. <i>Share</i> in a session or a dialogue, or <code>trl share NAME</code>, makes a link with which others can watch it, and do nothing else.</p> : (
        <ul class="execs" aria-label="Shares">
          {shares.map((h) => {
            const viewers = logins.filter((l) => l.share_id === h.share_id);
            return (
              <li key={h.share_id}><div class="line-item">
                <a class="clip grow" href={h.session_id ? href('s', h.session_id) : href('d', h.dialogue_id!)}>{plain(h.session_id ? sessionLabel(sessions.value.get(h.session_id)?.name || h.session_id) : sessionLabel(h.dialogue_id!))}</a>
                <span class="dim" title={viewers.map(about).join('\n')}>{viewers.length} of {h.viewers} {h.viewers === 1 ? 'viewer' : 'viewers'}{viewers.length > 0 ? `: ${viewers.map(about).join(', ')}` : ''}</span>
                <span class="dim">until {new Date(h.expires_at).toLocaleString()}</span>
                {mayWrite.value && <button class="small danger" onClick={() => endShare(h)}>End</button>}
              </div></li>
            );
          })}
        </ul>
      )}
      <h2>Logins</h2>
      <ul class="execs">
        {list.map((l) => (
          <li key={l.login_id}><div class="line-item">
            <span class="clip grow">{plain(browserName(l.browser))}{l.login_id === me.value?.login_id ? ' (this one)' : ''}</span>
            <span class="dim">{l.scope === 'read' ? 'read-only' : ''}</span><span class="dim">from {l.address}</span><span class="dim">used {ago(l.last_used_at)}{ago(l.last_used_at) === 'now' ? '' : ' ago'}</span>
            {mayWrite.value && l.login_id !== me.value?.login_id && <button class="small danger" onClick={() => revoke(l)}>Log out</button>}
          </div></li>
        ))}
      </ul>
      <p class="group">
        <button onClick={() => void attempt(logOut)}>Log out</button>
        {mayWrite.value && <button class="danger" onClick={() => askFirst({ title: 'Log out everywhere?', text: 'Every browser, this one too, needs a new `trl open`.', yes: 'Log out everywhere', danger: true, run: () => void attempt(() => control.call('web.revoke', { all: true })) })}>Log out everywhere</button>}
      </p>
    </>
  );
}
