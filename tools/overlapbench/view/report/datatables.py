"""DataTables, with which a report sorts and searches its tables (https://datatables.net, MIT).

The package itables contains it as a module, bundled with jQuery. A page that loads nothing cannot
import a module, so the bundle becomes a plain script that defines `DataTable`.
"""

import functools
import re
from importlib.metadata import distribution
from pathlib import Path

from markupsafe import Markup

from overlapbench.reading.source import ResultError
from overlapbench.view.page import inside_element

# Located, not imported: at import, itables reads settings of the current folder.
_BUNDLE = Path(str(distribution("itables").locate_file("itables/html/dt_bundle.js")))
_EXPORT = re.compile(r"\bexport\s*\{[^{}]*?([\w$]+) as default\b[^{}]*\}")


@functools.cache
def datatables() -> Markup:
    """Return DataTables as a script that cannot end its own element."""
    return inside_element(as_script(_BUNDLE.read_text(encoding="utf-8")))


def as_script(module: str) -> str:
    """Return a module whose default export is DataTable as a script that defines it."""
    script, exports = _EXPORT.subn(r"globalThis.DataTable = \1", module)
    if exports != 1:
        raise ResultError("itables: its DataTables has no default export: install itables 2.9.1")
    return f'(() => {{ "use strict";\n{script}\n}})();'
