/** Types of the package; see `index.js` for what each is for. */

/** An image, a sound or a video, kept by the host: a plugin pays only for the bytes it reads. */
export interface Media {
  mime(): string;
  size(): bigint;
  read(offset: bigint, length: number): Uint8Array;
}

export type Part =
  | { kind: "text"; text: string }
  | { kind: "image" | "audio" | "video"; media: Media };

export interface Message {
  role: "system" | "user" | "assistant" | "tool";
  content: Part[];
  toolCalls: { id: string; name: string; arguments: string }[];
  toolCallId?: string;
}

/** One finished rollout. */
export interface Sample {
  /** Stable identity; results are joined on it. */
  id: string;
  /** Text of the last assistant message, without special tokens. */
  response: string;
  /** The model's messages and what came back to it, after the prompt. */
  completion: Message[];
  finish: "stop" | "length" | "tool-calls" | "max-turns" | "aborted" | "environment";
  promptTokens: number;
  responseTokens: number;
  turns: number;
  environmentRewards: Record<string, number>;
}

/** All rollouts of one prompt. A lone sample is a group of one. */
export interface Group {
  id: string;
  prompt: Message[];
  /** The reference answer, if the row has one. */
  label?: string;
  /** The row's other columns. */
  metadata: Record<string, unknown>;
  samples: Sample[];
}

/** A score: named, finite values, each declared in `Reward.components`. */
export interface Grade {
  components: Record<string, number>;
  /** What was extracted, or why the sample fell short. */
  note?: string;
  /** Values for ranges of the UTF-8 bytes of the response. */
  spans?: { start: number; end: number; value: number }[];
}

export type Outcome = Grade | { unscorable: string };

export abstract class Reward {
  static components: string[];
  static determinism: "pure" | "seeded" | "recorded";
  static groupWise: boolean;
  static configSchema: object;
  /** One outcome per sample, in order. */
  abstract score(group: Group): Outcome[];
  /**
   * With `isolated` in package.json each sample gets an instance of its own, and this says what one
   * is worth whose call was ended; nothing makes it a failure.
   */
  ended?(end: "time" | "memory" | "stack" | "trap"): Grade | undefined;
}

export interface Row {
  id: string;
  prompt: Message[];
  label?: string;
  metadata: Record<string, unknown>;
  promptTokens: number;
}

/** A group with the rewards that it got; `undefined` where a sample has no score. */
export interface ScoredGroup {
  group: Group;
  rewards: (number | undefined)[];
}

export interface Verdict {
  keep: boolean;
  /** Short and stable: it becomes a metric's name. */
  reason: string;
  /** For a group: use it anyway when too few groups pass. */
  keepIfShort: boolean;
}

export class Filter {
  static configSchema: object;
  keepRows(rows: Row[]): Verdict[];
  keepGroups(groups: ScoredGroup[]): Verdict[];
}

/** A batch as columns. Per-token columns are the samples' response tokens one after another. */
export interface Batch {
  sampleIds: string[];
  groups: Uint32Array;
  /** NaN where a sample has no score. */
  rewards: Float32Array;
  components: Record<string, Float32Array>;
  lengths: Uint32Array;
  mask: Uint8Array;
  rolloutLogprobs: Float32Array;
  oldLogprobs: Float32Array;
  referenceLogprobs: Float32Array;
  values: Float32Array;
  versions: Uint32Array;
  turns: Uint16Array;
}

export abstract class Advantage {
  static configSchema: object;
  static perToken: boolean;
  abstract estimate(batch: Batch): Iterable<number>;
}

export const outcome: {
  scored(value: number, note?: string): Grade;
  correct(correct: boolean, note?: string): Grade;
  components(components: Record<string, number>, note?: string): Grade;
  unscorable(reason: string): Outcome;
};

export const verdict: {
  keep(): Verdict;
  drop(reason: string): Verdict;
  spare(reason: string): Verdict;
};

export class InvalidInput extends Error {}
export class Unavailable extends Error {}

export const host: {
  log(message: string, level?: "debug" | "info" | "warn" | "error"): void;
  randomU64(): bigint;
  storeGet(key: string): Uint8Array | undefined;
  storeSet(key: string, value: Uint8Array): void;
  judge(
    messages: Message[],
    options?: { maxTokens?: number; temperature?: number; route?: string },
  ): { text: string; inputTokens: number; outputTokens: number };
  fetch(
    url: string,
    options?: { method?: string; headers?: [string, string][]; body?: Uint8Array },
  ): { status: number; headers: [string, string][]; body: Uint8Array };
};

export function group(
  label: string | undefined,
  responses: string[],
  options?: { prompt?: string; metadata?: Record<string, unknown> },
): Group;
