import { exactBytes } from "./bytes.js";
import type { Trl } from "./client.js";
import { fromWire, toWire, type Camel } from "./names.js";
import type { DialogueEnd, DialogueEvent, DialogueInfo, DialogueRequest, DialogueSendResult, DialogueTranscript, DialogueTurn } from "./results.js";
import { PushStream, type StreamOptions } from "./stream.js";
import type { Abortable, WireRequest } from "./transport.js";
import type * as wire from "./types.js";

/** Which coding agent to talk to, and how. */
export interface DialogueOptions extends Camel<wire.DialogueCreateParams>, Abortable {}

/** The options of a message. */
export interface SendOptions extends Abortable {
  /** A UUID. A second message with the same id is not sent. Absent: a new id. */
  messageId?: string;
}

/** The answer to a request of the agent. */
export interface Answer extends Omit<Camel<wire.DialogueRespondParams>, "dialogueId" | "requestId"> {}

/** Which events of a dialogue to push. */
export interface DialogueEventOptions extends Omit<Camel<wire.DialogueEventsParams>, "dialogueId">, StreamOptions {}

/** Which part of the agent's raw output or input to read. */
export interface RawOptions extends Pick<Camel<wire.DialogueRawParams>, "epoch" | "stream" | "offset">, Abortable {}

/** The reply to a message: the end of a turn, requests that wait for an answer, or the end of the agent. */
export interface Reply {
  messageId: string;
  /** The number of the last event that was read; `wait` continues from here. */
  seq: number;
  /** The agent's text at the end of the turn. */
  text: string;
  /** The turn that has ended. */
  turn?: DialogueTurn;
  /** The requests that wait for an answer. If there are any, the turn has not ended: answer them, then `wait`. */
  requests: DialogueRequest[];
  /** How the agent's program ended; absent if it has not. */
  ended?: DialogueEnd;
}

/** A conversation with a coding agent. It continues without the client, and across restarts of the daemon. */
export class Dialogue {
  readonly id: string;
  /** The dialogue as it was when it was created or found. */
  readonly created: DialogueInfo;
  #trl: Trl;

  /** Called by Trl. */
  constructor(trl: Trl, info: DialogueInfo) {
    this.#trl = trl;
    this.id = info.dialogueId;
    this.created = info;
  }

  /** Returns the current state of the dialogue. */
  async info(options: Abortable = {}): Promise<DialogueInfo> {
    return this.#trl.call("dialogue.info", { dialogueId: this.id }, options);
  }

  /** Sends the agent a message: a text, or blocks. The message is sent once, even if the connection is lost. */
  async send(message: string | Camel<wire.DialogueContent>[], options: SendOptions = {}): Promise<DialogueSendResult> {
    const { signal, messageId = newUUID() } = options;
    const what = typeof message === "string" ? { text: message } : { content: message };
    return this.#trl.call("dialogue.send", { dialogueId: this.id, messageId, ...what }, { signal });
  }

  /** Sends a message and waits until its turn has ended, or a request waits for an answer. */
  async sendAndWait(message: string | Camel<wire.DialogueContent>[], options: SendOptions = {}): Promise<Reply> {
    return this.wait(await this.send(message, options), { signal: options.signal });
  }

  /**
   * Waits for the reply to a message; or, once the requests of a reply are answered, for
   * the rest of it. The agent may answer a message that came while it worked in the turn
   * that was running.
   */
  async wait(after: DialogueSendResult | Reply, options: Abortable = {}): Promise<Reply> {
    const { messageId } = after;
    const reply: Reply = { messageId, seq: after.seq, text: "", requests: await this.#waiting(options) };
    if (reply.requests.length > 0) return reply;
    for await (const event of this.events({ afterSeq: after.seq, noDeltas: true, signal: options.signal })) {
      reply.seq = event.seq;
      switch (event.type) {
        case "request_opened":
          reply.requests = await this.#waiting(options); // a policy may have answered it
          if (reply.requests.length > 0) return reply;
          break;
        case "turn_ended":
          reply.turn = event.turn!;
          reply.text = reply.turn.text ?? "";
          if (reply.turn.outcome !== "lost" && reply.turn.messages?.includes(messageId)) return reply; // else the end follows
          break;
        case "state": // idle; the agent did not say which messages the turn was for
          if (event.state === "idle" && reply.turn && (await this.info(options)).state === "idle") return reply;
          break;
        case "message":
          if (event.message?.messageId === messageId && event.message.state === "cancelled") return reply;
          break;
        case "ended":
          return { ...reply, ended: event.ended! };
      }
    }
    return reply;
  }

  /** Returns the requests that wait for an answer. */
  async requests(options: Abortable = {}): Promise<DialogueRequest[]> {
    return (await this.transcript(options)).requests.filter((request) => !request.how);
  }

  async #waiting(options: Abortable): Promise<DialogueRequest[]> {
    return (await this.info(options)).requests > 0 ? this.requests(options) : [];
  }

  /** Answers a request of the agent. A second answer is refused with CONFLICT. */
  async respond(request: string | Pick<DialogueRequest, "requestId">, answer: Answer, options: Abortable = {}): Promise<DialogueInfo> {
    const requestId = typeof request === "string" ? request : request.requestId;
    return this.#trl.call("dialogue.respond", { dialogueId: this.id, requestId, ...answer }, options);
  }

  /** Allows a request. */
  async allow(request: string | Pick<DialogueRequest, "requestId">, answer: Omit<Answer, "decision"> = {}): Promise<DialogueInfo> {
    return this.respond(request, { decision: "allow", ...answer });
  }

  /** Denies a request; the agent gets the message. */
  async deny(request: string | Pick<DialogueRequest, "requestId">, message = ""): Promise<DialogueInfo> {
    return this.respond(request, { decision: "deny", ...(message && { message }) });
  }

  /** Stops the agent's current turn. The dialogue goes on. */
  async interrupt(options: Abortable = {}): Promise<DialogueInfo> {
    return this.#trl.call("dialogue.interrupt", { dialogueId: this.id }, options);
  }

  /** Changes the model, the permission mode or the policy. */
  async set(what: Omit<Camel<wire.DialogueSetParams>, "dialogueId">, options: Abortable = {}): Promise<DialogueInfo> {
    return this.#trl.call("dialogue.set", { dialogueId: this.id, ...what }, options);
  }

  /** Yields past and future events, from any event on, until the agent's program has ended. */
  events(options: DialogueEventOptions = {}): DialogueStream {
    const { signal, reconnect, ...rest } = options;
    const params = { dialogue_id: this.id, ...(toWire(rest) as object) };
    return new DialogueStream(this.#trl.link, { method: "dialogue.events", params }, { signal, reconnect });
  }

  /** The transcript: turns, items with their tool calls, tasks, requests. */
  async transcript(options: Abortable = {}): Promise<DialogueTranscript> {
    return this.#trl.call("dialogue.transcript", { dialogueId: this.id }, options);
  }

  /** Yields the raw output of the agent's program up to its current end; with stream stdin, its raw input. */
  async *raw(options: RawOptions = {}): AsyncGenerator<Uint8Array, void> {
    const { signal, offset: first = 0, ...which } = options;
    for (let offset = first; ; ) {
      const piece = await this.#trl.call("dialogue.raw", { dialogueId: this.id, ...which, offset }, { signal });
      which.epoch = piece.epoch; // a later piece must be of the same epoch
      const bytes = exactBytes(piece.data, piece.dataBase64);
      if (bytes.length > 0) yield bytes;
      offset = piece.offset + bytes.length;
      if (bytes.length === 0 || offset >= piece.total) return;
    }
  }

  /** Ends the agent's program and everything it started. With `force` it does so at once; with `forget` the daemon keeps nothing of the dialogue. */
  async terminate(options: Abortable & { force?: boolean; forget?: boolean } = {}): Promise<DialogueInfo> {
    const { signal, ...rest } = options;
    return this.#trl.call("dialogue.terminate", { dialogueId: this.id, ...rest }, { signal });
  }

  /** Starts the agent again, in the same dialogue. The agent gets only the environment of the options. */
  async resume(options: Abortable & { env?: Record<string, string>; prompt?: string } = {}): Promise<DialogueInfo> {
    const { signal, ...rest } = options;
    return this.#trl.call("dialogue.resume", { dialogueId: this.id, ...rest }, { signal });
  }

  /** Tries again to reach the agent of a dialogue in state error. */
  async retry(options: Abortable = {}): Promise<DialogueInfo> {
    return this.#trl.call("dialogue.retry", { dialogueId: this.id }, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#trl.leave({ method: "dialogue.terminate", params: { dialogue_id: this.id } }, "DIALOGUE_NOT_FOUND");
  }
}

/** The events of a dialogue. The stream ends when the agent's program has ended, or with `noFollow` after the last event. */
export class DialogueStream extends PushStream<DialogueEvent> {
  protected override repeatable(): boolean {
    return true;
  }

  protected override resume(_: unknown, { method, params }: WireRequest): WireRequest {
    return { method, params: { ...params, after_seq: this.lastSeq ?? params["after_seq"] ?? 0 } };
  }

  protected override whereabouts(): Record<string, unknown> {
    return { after_seq: this.lastSeq };
  }

  protected override accept(push: wire.StreamEvent): DialogueEvent | undefined {
    if (this.lastSeq !== undefined && push.seq <= this.lastSeq) return undefined;
    return push.type === "dialogue" && push.event ? fromWire(push.event) : undefined;
  }
}

/** Returns a random UUID (version 4), the form of message ids that agents require. */
function newUUID(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
