"""Values in texts: where they begin and end, and whether a source contains them."""

from importlib.resources import files


def word_list(name: str) -> str:
    """The text of one of this package's lists of words: `units`, `multipliers` and
    others.
    """
    return files(__name__).joinpath(f"{name}.txt").read_text(encoding="utf-8")
