import math
import unittest

from plugin import Centred
from whet_plugin import Batch
from whet_plugin.testing import configured


class CentredTest(unittest.TestCase):
    def test_rewards_are_centred_within_their_group(self):
        batch = Batch(rewards=[1.0, 0.0, 5.0, math.nan], groups=[0, 0, 1, 1])
        self.assertEqual(configured(Centred, {"scale": 2}).estimate(batch), [1.0, -1.0, 0.0, 0.0])


if __name__ == "__main__":
    unittest.main()
