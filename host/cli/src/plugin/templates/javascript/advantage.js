/** An estimator: the reward less the mean of its group, times `scale`. */

import { Advantage } from "whet-plugin";

export default class Centred extends Advantage {
  /** The keys that a recipe may write under `config`. */
  static configSchema = {
    type: "object",
    properties: { scale: { type: "number", default: 1, description: "factor of every advantage" } },
    additionalProperties: false,
  };

  /** @param {{ scale?: number }} config */
  constructor({ scale = 1 }) {
    super();
    this.scale = scale;
  }

  /** @param {Pick<import("whet-plugin").Batch, "rewards" | "groups">} batch */
  estimate({ rewards, groups }) {
    const sums = new Map();
    rewards.forEach((reward, i) => {
      const [sum, n] = sums.get(groups[i]) ?? [0, 0];
      // A sample without a score teaches nothing.
      if (Number.isFinite(reward)) sums.set(groups[i], [sum + reward, n + 1]);
    });
    return Array.from(rewards, (reward, i) => {
      if (!Number.isFinite(reward)) return 0;
      const [sum, n] = sums.get(groups[i]);
      return this.scale * (reward - sum / n);
    });
  }
}
