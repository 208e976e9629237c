"""A page of HTML as tests look at it: its elements, their attributes and texts."""

import re
from html.parser import HTMLParser


class Page(HTMLParser):
    """The elements of a page, their attributes, and the text inside of each kind of element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._open.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass  # elements that HTML does not close

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open[-1]][-1] += data

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}

    @property
    def attributes(self) -> set[str]:
        return {name for _, attributes in self.elements for name in attributes}

    def values(self, tag: str, attribute: str) -> list[str]:
        found = (a.get(attribute) for t, a in self.elements if t == tag)
        return [value for value in found if value is not None]

    def figures(self, anchor: str) -> list[str]:
        """Return the texts of a row's cells, tags left out."""
        row = re.search(rf'<tr id="{re.escape(anchor)}".*?</tr>', self.html, flags=re.DOTALL)
        assert row, anchor
        cells = re.findall(r"<td[^>]*>(.*?)</td>", row[0], flags=re.DOTALL)
        return [re.sub(r"<[^>]+>", "", cell).strip() for cell in cells]
