/** A filter: drops groups in which more rewards are missing than `share` allows. */

import { Filter, verdict } from "whet-plugin";

export default class Complete extends Filter {
  /** The keys that a recipe may write under `config`. */
  static configSchema = {
    type: "object",
    properties: {
      share: { type: "number", minimum: 0, maximum: 1, default: 0.5, description: "missing rewards that are tolerated" },
    },
    additionalProperties: false,
  };

  /** @param {{ share?: number }} config */
  constructor({ share = 0.5 }) {
    super();
    this.share = share;
  }

  /** @param {import("whet-plugin").ScoredGroup[]} groups */
  keepGroups(groups) {
    return groups.map(({ rewards }) => {
      const missing = rewards.filter((reward) => reward === undefined).length;
      return missing > this.share * rewards.length ? verdict.drop("rewards-missing") : verdict.keep();
    });
  }
}
