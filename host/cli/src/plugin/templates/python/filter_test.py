import unittest

from plugin import Complete
from whet_plugin import ScoredGroup
from whet_plugin.testing import configured, group


class CompleteTest(unittest.TestCase):
    def test_a_group_is_kept_while_few_rewards_are_missing(self):
        groups = [ScoredGroup(group(None, ["a", "b"]), r) for r in ([1.0, None], [None, None])]
        verdicts = configured(Complete, {}).keep_groups(groups)
        self.assertEqual([v.keep for v in verdicts], [True, False])


if __name__ == "__main__":
    unittest.main()
