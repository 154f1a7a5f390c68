"""The pages of docs/ show what their examples print."""

import contextlib
import io
import linecache
import re
import runpy
from pathlib import Path

import pytest

PAGES = {
    path.name: re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    for path in sorted((Path(__file__).resolve().parents[1] / "docs").glob("*.md"))
}


@pytest.mark.parametrize("page", [name for name, examples in PAGES.items() if examples])
def test_a_page_shows_what_is_printed(page, tmp_path):
    for code, shown in PAGES[page]:
        path = tmp_path / "example.py"
        path.write_text(code, encoding="utf-8")
        linecache.checkcache(str(path))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(path))
        assert printed.getvalue().replace(f"{tmp_path}/", "") == shown


def test_there_are_pages_with_examples():
    assert {"source.md", "compile.md"} <= {name for name, examples in PAGES.items() if examples}
