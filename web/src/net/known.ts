// What the lists of sessions and of dialogues do alike.

/** Reads things again that have changed, a few at once. A thing that changes meanwhile is read once more. */
export class Reader {
  private readonly changed = new Set<string>();
  private busy = 0;

  constructor(private readonly most: number, private readonly read: (id: string) => Promise<void>) {}

  ask(id: string): void {
    this.changed.add(id);
    if (this.busy < this.most) void this.work();
  }

  /** Goes on after a new connection. */
  resume(): void {
    for (const id of this.changed) this.ask(id);
  }

  private async work(): Promise<void> {
    this.busy++;
    for (const id of this.changed) {
      this.changed.delete(id);
      await this.read(id).catch(() => undefined);
    }
    this.busy--;
  }
}

/** The answer of a list, with what is known and younger than the request: it was not there before. */
export function withYounger<T>(answer: Map<string, T>, known: ReadonlyMap<string, T>, before: ReadonlySet<string>): Map<string, T> {
  for (const [id, x] of known) if (!before.has(id) && !answer.has(id)) answer.set(id, x);
  return answer;
}
