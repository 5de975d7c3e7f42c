// The recordings of terminals, also of sessions that are no longer known.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { KeptRecording, RecordingListResult } from '../../../sdk/typescript/src/types.js';
import { control, epoch, mayWrite, onEvent } from '../net/sessions.js';
import { ago, askFirst, attempt, bytes, Empty, plain } from '../ui/parts.js';
import { href } from '../ui/route.js';

export function RecordingsPage() {
  const [list, setList] = useState<KeptRecording[]>();
  const [next, setNext] = useState('');
  const [total, setTotal] = useState(0);
  const [wrong, setWrong] = useState('');
  const paged = useRef(false); // there are older ones than the newest in the list
  // Reads the newest recordings, or those before one. What is older than the newest ones stays.
  const load = (before = '') => control.call<RecordingListResult>('recording.list', before ? { before } : {}).then((r) => {
    const oldest = r.recordings[r.recordings.length - 1]?.started_at ?? '';
    setList((l = []) => (before ? [...l, ...r.recordings] : [...r.recordings, ...l.filter((x) => r.next_before && x.started_at < oldest)]));
    if (before || !paged.current) setNext(r.next_before ?? '');
    paged.current ||= before !== '';
    setTotal(r.total_bytes);
    setWrong('');
  }, (e) => setWrong((e as Error).message));
  useEffect(() => {
    void load();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = onEvent((p) => {
      if (p.type !== 'session.created' && p.type !== 'session.terminated') return;
      clearTimeout(timer);
      timer = setTimeout(() => void load(), 200); // many sessions may end together
    });
    return () => { clearTimeout(timer); stop(); };
  }, [epoch.value]);
  const remove = (r: KeptRecording) => askFirst({
    title: 'Delete this recording?', text: `${plain(r.name || r.recording_id)}, ${bytes(r.bytes)}. It cannot be restored.`, yes: 'Delete', danger: true,
    run: () => void attempt(() => control.call('recording.delete', { recording_id: r.recording_id })).then(() => { setList((l) => l?.filter((x) => x.recording_id !== r.recording_id)); return load(); }),
  });
  if (!list) return <Empty><p>{wrong || 'Loading…'}</p></Empty>;
  return (
    <section class="page" aria-label="Recordings">
      <div class="bar head"><h1>Recordings</h1><span class="grow" /><span class="dim">{list.length > 0 && bytes(total)}</span></div>
      {list.length === 0 ? (
        <Empty><h2>No recordings yet</h2><p>TRL records a terminal only on request:</p><pre>trl new -t --record demo</pre><pre>trl record -o demo.cast -- vim notes</pre></Empty>
      ) : (
        <ul class="execs recordings">
          {list.map((r) => (
            <li key={r.recording_id}><div class="line-item">
              <a class="clip grow" href={href('r', r.recording_id)}><strong>{plain(r.name || r.recording_id)}</strong> <span class="mono dim">{plain(r.command ?? '')}</span></a>
              {r.live && <span class="state s-running"><span aria-hidden="true">●</span> live</span>}
              <span class="dim wide-only">{r.cols}×{r.rows}</span><span class="dim">{bytes(r.bytes)}</span><span class="dim" title={r.started_at}>{ago(r.started_at) === 'now' ? 'now' : `${ago(r.started_at)} ago`}</span>
              {mayWrite.value && <button class="small danger" disabled={r.live} title={r.live ? 'Its session is still running' : undefined} aria-label={`Delete ${plain(r.name || r.recording_id)}`} onClick={() => remove(r)}>Delete</button>}
            </div></li>
          ))}
        </ul>
      )}
      {next && <div class="foot"><button class="small" onClick={() => void load(next)}>Older recordings</button></div>}
    </section>
  );
}
