// The connections of the page: those of the TypeScript SDK, as signals and with the login of this
// browser. A flood on one connection must not delay the answers of another, so every terminal and
// every followed output has its own.
import { batch, signal, type Signal } from '@preact/signals';
import { ConnectionLostError, LiveConnection, type LiveState, type Push } from '../../../sdk/typescript/src/websocket.js';
import type { StreamStart } from '../../../sdk/typescript/src/types.js';
import { label } from '../ui/prefs.js';
import { key, leftShare, me, refreshMe, shared } from './login.js';

export type { Push, TrlError } from '../../../sdk/typescript/src/websocket.js';

const all = new Set<Conn>();

export class Conn {
  readonly state: Signal<LiveState> = signal('connecting');
  /** When the next try is, in milliseconds of Date.now(), while waiting. */
  readonly next = signal(0);
  /** Since when there has been no connection; 0 while there is one. */
  readonly lostAt = signal(0);
  private readonly live: LiveConnection;

  /** opened is called after every connect; what is subscribed there is subscribed again. */
  constructor(opened: (c: Conn) => void) {
    all.add(this);
    this.live = new LiveConnection({
      url: location.origin,
      protocols: () => ['trl.key.' + key()],
      onOpen: () => {
        // Others see this name when they ask who typed, answered or changed something. A share changes nothing.
        if (!shared.value) void this.call('system.hello', { label: label() }).catch(() => undefined);
        opened(this);
      },
      onChange: () => this.changed(),
      isOver: async () => {
        await refreshMe().catch(() => undefined);
        return me.value === null;
      },
    });
  }

  private changed(): void {
    const { live } = this;
    batch(() => {
      this.state.value = live.state;
      this.next.value = live.nextTry;
      this.lostAt.value = live.lostAt;
      if (live.state === 'over') {
        if (live.lastError?.details?.['close_code'] === 4401) leftShare.value = true;
        me.value = null;
      }
    });
  }

  async call<T = unknown>(method: string, params: object = {}): Promise<T> {
    try {
      return (await this.live.call(method, params)) as T;
    } catch (e) {
      // Which side closed it with which code does not help a person.
      throw e instanceof ConnectionLostError && e.sent ? new ConnectionLostError('the connection to the daemon was lost', true, e) : e;
    }
  }

  stream(method: string, params: object, push: (p: Push) => void): Promise<StreamStart> { return this.live.stream(method, params, push); }

  /** Ends a stream; none of its pushes is delivered any more. */
  end(stream: string): void { this.live.end(stream); }

  /** Drops the connection and makes a new one. */
  restart(): void { this.live.restart(); }

  /** Tries again now, if it waits. After a new login, a connection that had ended is opened again, too. */
  kick(): void {
    if (this.state.value === 'waiting' || me.value) this.live.kick();
  }

  close(): void {
    all.delete(this);
    this.live.close();
  }
}

export function kickAll(): void {
  for (const c of all) c.kick();
}

addEventListener('online', kickAll);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) kickAll();
});
