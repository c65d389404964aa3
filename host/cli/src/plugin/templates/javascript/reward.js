/** A reward: 1 when the response contains the label as a word of its own, else 0. */

import { Reward, outcome } from "whet-plugin";

export default class Contains extends Reward {
  /** The keys that a recipe may write under `config`. */
  static configSchema = {
    type: "object",
    properties: {
      case_sensitive: { type: "boolean", default: false, description: "upper and lower case count" },
    },
    additionalProperties: false,
  };

  /** @param {{ case_sensitive?: boolean }} config */
  constructor({ case_sensitive = false }) {
    super();
    this.folded = case_sensitive ? (text) => text : (text) => text.toLowerCase();
  }

  /** @param {import("whet-plugin").Group} group */
  score(group) {
    if (group.label === undefined) {
      return group.samples.map(() => outcome.unscorable("the row has no label"));
    }
    const label = this.folded(group.label);
    return group.samples.map(({ response }) => {
      const words = this.folded(response).match(/[\w\u0080-\uffff]+/g) ?? [];
      return outcome.correct(words.includes(label), `${words.length} words`);
    });
  }
}
