/**
 * Write Whet plugins in JavaScript: rewards, filters and advantage estimators.
 *
 * A plugin is a class and the default export of its module. Its logic is ordinary JavaScript and is
 * tested as such; `whet plugin build` puts it, with SpiderMonkey, into a WebAssembly component that
 * can do nothing but compute and what `host` offers. Types are in `index.d.ts`.
 */

/** Scores the rollouts of one prompt. */
export class Reward {
  /** Names of the components that `score` may return. */
  static components = ["reward"];
  /** `pure`: of the input alone; `seeded`: also of `host.randomU64`; `recorded`: of a judge or HTTP. */
  static determinism = "pure";
  /** A sample's score depends on the other samples of its group. */
  static groupWise = false;
  /** JSON Schema of the configuration that the constructor takes. */
  static configSchema = { type: "object", properties: {}, additionalProperties: false };

  /** @param {import("./index.js").Group} _group */
  score(_group) {
    throw new Error("a reward needs a method `score`");
  }
}

/** Decides what is trained on. Both methods keep everything unless they are written. */
export class Filter {
  static configSchema = Reward.configSchema;

  /** @param {import("./index.js").Row[]} rows */
  keepRows(rows) {
    return rows.map(() => verdict.keep());
  }

  /** @param {import("./index.js").ScoredGroup[]} groups */
  keepGroups(groups) {
    return groups.map(() => verdict.keep());
  }
}

/** Turns rewards into advantages. */
export class Advantage {
  static configSchema = Reward.configSchema;
  /** What `estimate` returns: a value per response token instead of one per sample. */
  static perToken = false;

  /** @param {import("./index.js").Batch} _batch */
  estimate(_batch) {
    throw new Error("an estimator needs a method `estimate`");
  }
}

/** What a reward says about one sample. */
export const outcome = {
  /** A score under the name `reward`. */
  scored: (value, note) => ({ components: { reward: value }, note }),
  /** 1 or 0 under the name `reward`. */
  correct: (correct, note) => ({ components: { reward: correct ? 1 : 0 }, note }),
  /** Named values; the recipe says how they combine. */
  components: (components, note) => ({ components, note }),
  /** There is no right score (why): never the same as 0. */
  unscorable: (reason) => ({ unscorable: reason }),
};

/** Whether to keep a row or a group; a reason becomes a metric's name. */
export const verdict = {
  keep: () => ({ keep: true, reason: "kept", keepIfShort: true }),
  drop: (reason) => ({ keep: false, reason, keepIfShort: false }),
  /** Drop it, unless too few groups pass. */
  spare: (reason) => ({ keep: false, reason, keepIfShort: true }),
};

/** The input breaks the plugin's contract; say which field. */
export class InvalidInput extends Error {}
/** Something that the plugin needs answered with an error. */
export class Unavailable extends Error {}

const absent = (name) => () => {
  throw new Unavailable(`no ${name} here: in a test, assign host.${name}; in a plugin, ask for the capability`);
};

/**
 * What a plugin may ask of the host. Everything but `log` needs the project's `capabilities` and a
 * grant in the recipe. A test assigns its own functions.
 */
export const host = {
  log: (message, level = "info") => console.log(`[${level}] ${message}`),
  randomU64: absent("randomU64"),
  storeGet: absent("storeGet"),
  storeSet: absent("storeSet"),
  judge: absent("judge"),
  fetch: absent("fetch"),
};

/** A group of finished samples, one per response, for tests. */
export function group(label, responses, { prompt = "?", metadata = {} } = {}) {
  const message = (role, text) => ({ role, content: [{ kind: "text", text }], toolCalls: [] });
  const samples = responses.map((response, i) => ({
    id: `g/${i}`,
    response,
    completion: [message("assistant", response)],
    finish: "stop",
    promptTokens: 1,
    responseTokens: response.split(/\s+/).filter(Boolean).length,
    turns: 1,
    environmentRewards: {},
  }));
  return { id: "g", prompt: [message("user", prompt)], label, metadata, samples };
}
