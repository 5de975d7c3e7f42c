// Sharing a session or a dialogue: for how long and with how many, then the link, once.
import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { WebShareParams, WebShareResult } from '../../../sdk/typescript/src/types.js';
import { control } from '../net/sessions.js';
import { copyText, Modal, plain } from '../ui/parts.js';

/** What is to be shared, and how the page calls it. */
export const sharing = signal<{ name: string; what: Pick<WebShareParams, 'session_id' | 'dialogue_id'> } | null>(null);

const times: [number, string][] = [[600, '10 minutes'], [3600, '1 hour'], [8 * 3600, '8 hours'], [24 * 3600, '1 day'], [7 * 24 * 3600, '7 days'], [30 * 24 * 3600, '30 days']];

/** The address at which others reach this daemon is most likely the one of this page; the daemon knows only its own. */
function linkOf(r: WebShareResult): string { return location.origin + '/' + new URL(r.url).hash; }

export function ShareDialog() {
  const s = sharing.value;
  const [expires, setExpires] = useState(3600);
  const [viewers, setViewers] = useState('5');
  const [made, setMade] = useState<WebShareResult>();
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const [copied, setCopied] = useState<boolean>();
  const link = useRef<HTMLInputElement>(null);
  useEffect(() => { setMade(undefined); setError(''); setCopied(undefined); setBusy(false); }, [s]);
  useEffect(() => link.current?.focus(), [made]);
  if (!s) return null;
  const close = () => (sharing.value = null);
  const submit = async () => {
    setBusy(true);
    setError('');
    try {
      const r = await control.call<WebShareResult>('web.share', { ...s.what, expires_s: expires, viewers: Number(viewers) });
      if (sharing.peek() === s) setMade(r);
    } catch (e) {
      if (sharing.peek() === s) setError((e as Error).message);
    } finally {
      if (sharing.peek() === s) setBusy(false);
    }
  };
  if (made) {
    return (
      <Modal title={`Link to ${plain(s.name)}`} close={close}>
        <form onSubmit={(e) => { e.preventDefault(); void copyText(linkOf(made)).then(setCopied); }}>
          <input ref={link} class="mono whole" aria-label="Link" readOnly value={linkOf(made)} onFocus={(e) => e.currentTarget.select()} />
          <p>Anyone with this link can watch until {new Date(made.expires_at).toLocaleString()}, {made.viewers === 1 ? 'one browser' : `${made.viewers} browsers`} at a time. The link is not shown again.</p>
          {/^(127\.|localhost$|\[::1\]$)/.test(location.hostname) && <p class="dim">The link leads to this machine. On another one it needs a tunnel to the same port, such as <code>ssh -L</code>.</p>}
          <p class="dim"><a href="#/settings" onClick={close}>Settings</a> shows who watches, and ends the share.</p>
          {copied === false && <p class="bad" role="alert">This browser does not let the page copy. Copy the link from its field.</p>}
          <footer><button type="button" onClick={close}>Done</button><button type="submit" class="primary">{copied ? 'Copied' : 'Copy the link'}</button></footer>
        </form>
      </Modal>
    );
  }
  return (
    <Modal title={`Share ${plain(s.name)}`} close={close}>
      <form onSubmit={(e) => { e.preventDefault(); void submit(); }}>
        <p>Others who have the link can watch live, and do nothing else. They also see what was printed or written before.</p>
        <label class="field"><span>Ends after</span><select value={expires} onChange={(e) => setExpires(Number(e.currentTarget.value))}>{times.map(([n, t]) => <option key={n} value={n}>{t}</option>)}</select></label>
        <label class="field"><span>Viewers</span><input type="number" min={1} max={64} required value={viewers} onInput={(e) => setViewers(e.currentTarget.value)} /></label>
        {error && <p class="bad wrap" role="alert">{error}</p>}
        <footer><button type="button" onClick={close}>Cancel</button><button type="submit" class="primary" autofocus disabled={busy}>{busy ? 'Making it…' : 'Make the link'}</button></footer>
      </form>
    </Modal>
  );
}
