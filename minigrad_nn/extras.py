"""Optional packages: imported where they are used, with an error that names the extra to install."""

from importlib import import_module
from types import ModuleType

from minigrad.errors import MinigradError, install_hint

__all__ = ["MissingExtraError", "require"]


class MissingExtraError(MinigradError, ImportError):
    """A package that only an extra of minigrad brings is not installed."""


def require(module: str, purpose: str, extra: str = "lm") -> ModuleType:
    """Import a module of an optional package.

    Raises
    ------
    MissingExtraError
        If the package is not installed; the message names the purpose and the command that installs it.
    """
    package = module.partition(".")[0]
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise  # the package is there and something else is missing: not ours to explain
        raise MissingExtraError(f"{purpose} needs {package}, which is not installed: {install_hint(extra)}") from error
    return import_module(module)
