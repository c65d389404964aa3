import assert from "node:assert/strict";
import { test } from "node:test";
import { group } from "whet-plugin";
import Complete from "./plugin.js";

test("a group is kept while few rewards are missing", () => {
  const scored = (rewards) => ({ group: group(undefined, ["a", "b"]), rewards });
  const verdicts = new Complete({}).keepGroups([scored([1, undefined]), scored([undefined, undefined])]);
  assert.deepEqual(verdicts.map((v) => v.keep), [true, false]);
});
