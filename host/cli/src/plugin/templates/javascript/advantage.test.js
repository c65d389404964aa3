import assert from "node:assert/strict";
import { test } from "node:test";
import Centred from "./plugin.js";

test("rewards are centred within their group", () => {
  const batch = { rewards: Float32Array.of(1, 0, 5, NaN), groups: Uint32Array.of(0, 0, 1, 1) };
  assert.deepEqual(new Centred({ scale: 2 }).estimate(batch), [1, -1, 0, 0]);
});
