"""Write Whet plugins in Python: rewards, filters and advantage estimators.

A plugin is a class. Its logic is ordinary Python and is tested as such; ``whet plugin build`` puts
it, with CPython, into a WebAssembly component that can do nothing but compute and what
:mod:`whet_plugin.host` offers.
"""

from .advantage import Advantage, Batch
from .errors import InvalidInput, PluginError, Unavailable
from .filter import Filter, Row, ScoredGroup, Verdict
from .message import Media, Message, Part, ToolCall
from .plugin import Plugin
from .reward import Grade, IsolatedReward, Outcome, Reward, Span, Unscorable
from .sample import Group, Sample

__all__ = [
    "Advantage", "Batch", "Filter", "Grade", "Group", "InvalidInput", "IsolatedReward", "Media",
    "Message", "Outcome", "Part", "Plugin", "PluginError", "Reward", "Row", "Sample", "ScoredGroup",
    "Span", "ToolCall", "Unavailable", "Unscorable", "Verdict",
]
