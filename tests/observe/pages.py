"""Checks of HTML: what a browser would need to repair, and what an exported page would lose."""

from html.parser import HTMLParser

VOID = {"br", "img", "hr", "path", "polyline", "line", "rect", "circle"}


class Page(HTMLParser):
    """The tags, attributes and text of some HTML whose tags are balanced."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.attributes, self.pieces = [], [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    @property
    def text(self):
        return "".join(self.pieces)

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"{tag} has an attribute twice"
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.pieces.append(data)


def page(html):
    """Return well-formed HTML without assets, scripts and style sheets."""
    found = Page(html)
    assert not {"script", "style", "link", "iframe"} & set(found.tags)
    for name, value in found.attributes:
        assert not name.startswith("on"), f"{name} runs code"
        assert name not in ("src", "href") or value.startswith("data:image/png;base64,")
    return found
