"""Functions by family. Importing it registers them all (`signatures.py`)."""

from riprap.expressions.library import (
    arrays,
    calendars,
    checksums,
    failing,
    higher,
    json_text,
    maps,
    mathematics,
    regular,
    structures,
    texts,
    times,
    varying,
)

LOADED = (arrays, calendars, checksums, failing, higher, json_text, maps, mathematics, regular, texts, structures,
          times, varying)  # fmt: skip
