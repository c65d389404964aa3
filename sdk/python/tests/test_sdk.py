"""The package as a plugin's author meets it, natively: `python3 -m unittest discover sdk/python`."""

import unittest
from typing import Literal

from whet_plugin import Advantage, Batch, Filter, Group, Message, Outcome, Reward, Verdict, host
from whet_plugin.plugin import option, schema_of
from whet_plugin.testing import Recorder, configured, group, using


class Short(Reward):
    limit: int = option(3, "characters that are free", minimum=1)
    unit: Literal["chars", "words"] = "chars"

    def score(self, group: Group):
        return [Outcome.correct(len(s.response) <= self.limit) for s in group.samples]


class Required(Reward):
    name: str
    tags: list[str] = option([])
    weight: float | None = None

    def score(self, group: Group):
        return group.all(Outcome.unscorable(self.name))


class Sdk(unittest.TestCase):
    def test_a_reward_is_ordinary_python(self):
        outcomes = configured(Short, {}).score(group(None, ["abc", "abcd"]))
        self.assertEqual([o.components for o in outcomes], [{"reward": 1.0}, {"reward": 0.0}])
        self.assertEqual(configured(Required, {"name": "x"}).score(group(None, ["a"]))[0].reason, "x")

    def test_options_make_the_schema(self):
        self.assertEqual(
            schema_of(Short),
            {
                "type": "object",
                "properties": {
                    "limit": {
                        "type": "integer",
                        "default": 3,
                        "description": "characters that are free",
                        "minimum": 1,
                    },
                    "unit": {"enum": ["chars", "words"], "default": "chars"},
                },
                "additionalProperties": False,
            },
        )
        schema = schema_of(Required)
        self.assertEqual(schema["required"], ["name"])
        self.assertEqual(schema["properties"]["tags"]["items"], {"type": "string"})
        self.assertEqual(schema["properties"]["weight"]["anyOf"], [{"type": "number"}, {"type": "null"}])

    def test_a_wrong_configuration_is_an_error_for_people(self):
        with self.assertRaisesRegex(ValueError, "limt"):
            configured(Short, {"limt": 1})
        with self.assertRaisesRegex(ValueError, "name"):
            configured(Required, {})

    def test_a_filter_keeps_what_it_does_not_judge(self):
        self.assertEqual(Filter().keep_groups([None, None]), [Verdict.kept()] * 2)

    def test_an_estimator_finds_each_samples_tokens(self):
        batch = Batch(rewards=[1.0, 0.0], groups=[0, 0], lengths=[2, 3])
        self.assertEqual(batch.tokens(), [slice(0, 2), slice(2, 5)])
        with self.assertRaises(TypeError):
            Advantage()

    def test_the_host_is_what_the_test_says(self):
        with using(Recorder(judge=lambda messages: messages[0].text.upper())) as recorder:
            host.log("careful", "warn")
            host.store_set("k", b"v")
            self.assertEqual(host.store_get("k"), b"v")
            self.assertEqual(host.judge([Message.of("user", "good?")]).text, "GOOD?")
            self.assertNotEqual(host.random_u64(), host.random_u64())
        self.assertEqual(recorder.lines, [("warn", "careful")])


if __name__ == "__main__":
    unittest.main()
