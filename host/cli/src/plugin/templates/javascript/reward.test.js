import assert from "node:assert/strict";
import { test } from "node:test";
import { group } from "whet-plugin";
import Contains from "./plugin.js";

const rewards = (config, label, responses) =>
  new Contains(config).score(group(label, responses)).map((o) => o.components?.reward);

test("the label must be a whole word", () => {
  assert.deepEqual(rewards({}, "Rome", ["It is rome.", "Romeo and Juliet", ""]), [1, 0, 0]);
  assert.deepEqual(rewards({ case_sensitive: true }, "Rome", ["rome"]), [0]);
});

test("a row without a label has no score", () => {
  assert.deepEqual(rewards({}, undefined, ["Rome"]), [undefined]);
});
