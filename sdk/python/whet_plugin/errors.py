"""How a plugin says that it could not do its work. Never a score, and never the number 0."""


class PluginError(Exception):
    """Fails the call. Any other exception does the same, with its traceback in the run's log."""


class InvalidInput(PluginError):
    """The input breaks the plugin's contract; say which field."""


class Unavailable(PluginError):
    """Something that the plugin needs (a judge, a server) answered with an error."""
