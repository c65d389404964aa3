/**
 * Between the contract's values and this package's, inside a component. Imported by the entry point
 * that `whet plugin build` generates, and by nothing else.
 */

import { host, InvalidInput, Unavailable } from "./index.js";

/** The plugin of this instance, once it is configured. */
let plugin;

/** The interfaces of a plugin's class; `imports` are the capabilities that its world names. */
export function exportsOf(kind, Plugin, about, imports) {
  connect(imports);
  const meta = {
    describe: () => ({
      ...about,
      configSchema: JSON.stringify(Plugin.configSchema ?? {}),
      components: kind === "reward" ? Plugin.components : [],
      determinism: Plugin.determinism ?? "pure",
      groupWise: Plugin.groupWise ?? false,
    }),
    configure(config) {
      try {
        plugin = new Plugin(JSON.parse(config));
      } catch (error) {
        throw String(error?.message ?? error);
      }
    },
  };
  const isolated = {
    ended: (end) => {
      const grade = plugin.ended?.(end);
      return grade && { components: components(grade), note: grade.note ?? "" };
    },
  };
  return { meta, reward, filter, advantage, isolated };
}

const reward = {
  score: (g) => guarded(() => plugin.score(group(g)).map(outcome)),
};

const filter = {
  keepRows: (rows) => guarded(() => plugin.keepRows(rows.map(row))),
  keepGroups: (groups) =>
    guarded(() => plugin.keepGroups(groups.map((g) => ({ group: group(g.group), rewards: [...g.rewards] })))),
};

const advantage = {
  estimate: (b) =>
    guarded(() => {
      const batch = { ...b, components: Object.fromEntries(b.components) };
      const tag = plugin.constructor.perToken ? "per-token" : "per-sample";
      return { tag, val: Float32Array.from(plugin.estimate(batch)) };
    }),
};

/** What a call returns; what it throws becomes the contract's error. */
function guarded(call) {
  try {
    return call();
  } catch (error) {
    const tag =
      error instanceof InvalidInput ? "invalid-input" : error instanceof Unavailable ? "unavailable" : "internal";
    if (tag === "internal") host.log(`${error?.message ?? error}\n${error?.stack ?? ""}`, "error");
    throw { tag, val: String(error?.message ?? error) };
  }
}

function components(grade) {
  return Object.entries(grade.components).map(([name, value]) => ({ name, value }));
}

function outcome(made) {
  if (made.unscorable !== undefined) return { tag: "unscorable", val: made.unscorable };
  return { tag: "scored", val: { components: components(made), spans: made.spans ?? [], note: made.note } };
}

function group(g) {
  return { ...g, prompt: g.prompt.map(message), metadata: metadata(g.metadata), samples: g.samples.map(sample) };
}

function row(r) {
  return { ...r, prompt: r.prompt.map(message), metadata: metadata(r.metadata) };
}

function metadata(text) {
  return text ? JSON.parse(text) : {};
}

function sample(s) {
  const environmentRewards = Object.fromEntries(s.environmentRewards.map((c) => [c.name, c.value]));
  return { ...s, completion: s.completion.map(message), environmentRewards };
}

function message(m) {
  const part = ({ tag, val }) => (tag === "text" ? { kind: "text", text: val } : { kind: tag, media: val });
  return { ...m, content: m.content.map(part) };
}

/** Makes `host` ask the host. */
function connect({ log, random, store, judge, http }) {
  host.log = (text, level = "info") => log.log(level, String(text));
  if (random) host.randomU64 = () => random.nextU64();
  if (store) {
    host.storeGet = (key) => store.get(key);
    host.storeSet = (key, value) => asked("the store", () => store.set(key, value));
  }
  if (judge) {
    host.judge = (messages, { maxTokens = 512, temperature = 0, route } = {}) => {
      const content = (m) => m.content.map((p) => ({ tag: "text", val: p.text }));
      const told = messages.map((m) => ({ ...m, content: content(m), toolCalls: m.toolCalls ?? [] }));
      return asked("judge", () => judge.chat({ messages: told, maxTokens, temperature, route }));
    };
  }
  if (http) {
    host.fetch = (url, { method = "GET", headers = [], body = new Uint8Array() } = {}) =>
      asked("http", () => http.fetch({ method, url, headers, body }));
  }
}

function asked(what, ask) {
  try {
    return ask();
  } catch (error) {
    const { tag, val } = error?.payload ?? {};
    throw new Unavailable(`${what}: ${[tag ?? error?.payload ?? error, val].filter(Boolean).join(": ")}`);
  }
}
