import unittest

from plugin import Contains
from whet_plugin.testing import configured, group


class ContainsTest(unittest.TestCase):
    def rewards(self, config, label, responses):
        outcomes = configured(Contains, config).score(group(label, responses))
        return [getattr(outcome, "components", {}).get("reward") for outcome in outcomes]

    def test_the_label_must_be_a_whole_word(self):
        found = self.rewards({}, "Rome", ["It is rome.", "Romeo and Juliet", ""])
        self.assertEqual(found, [1, 0, 0])
        self.assertEqual(self.rewards({"case_sensitive": True}, "Rome", ["rome"]), [0])

    def test_a_row_without_a_label_has_no_score(self):
        self.assertEqual(self.rewards({}, None, ["Rome"]), [None])


if __name__ == "__main__":
    unittest.main()
