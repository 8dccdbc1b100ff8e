"""Written panels: the panel type "text", in the part of Markdown that dashboards use, as safe HTML. Pure."""

import re
from collections.abc import Sequence
from html import escape

from stack.live.dashboard import Panel, string
from stack.live.panels.base import Drawn

_LINK = re.compile(r"\[([^\]]+)\]\((https?://[^\s)]+|/[^\s)]*|#[^\s)]*)\)")


def draw_text(panel: Panel) -> Drawn:
    """Markdown becomes HTML; other modes are shown as the text they are, never as markup."""
    content = string(panel.options, "content")
    html = markdown(content) if string(panel.options, "mode") in ("markdown", "") else f"<pre>{escape(content)}</pre>"
    return Drawn("text", body={"html": html})


def markdown(text: str) -> str:
    """Headings, lists, paragraphs, code, emphasis and links. Everything else stays the text it was, escaped."""
    blocks: list[str] = []
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n").strip()):
        lines = block.split("\n")
        if len(lines) > 1 and lines[0].startswith("```") and lines[-1].startswith("```"):
            blocks.append(f"<pre>{escape(chr(10).join(lines[1:-1]))}</pre>")
        else:
            blocks += _block(lines)
    return "\n".join(blocks)


def _block(lines: Sequence[str]) -> list[str]:
    """A block may hold a heading, a list and a paragraph directly under each other."""
    html: list[str] = []
    items: list[str] = []
    words: list[str] = []

    def close() -> None:
        if words:
            html.append(f"<p>{_inline(' '.join(words))}</p>")
            words.clear()
        if items:
            html.append(f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>")
            items.clear()

    for line in lines:
        heading, item = re.match(r"(#{1,4})\s+(.*)", line), re.match(r"\s*(?:[-*+]|\d+\.)\s+(.*)", line)
        if heading:
            close()
            level = len(heading[1]) + 2  # under the page's and the panel's own headings
            html.append(f"<h{level}>{_inline(heading[2])}</h{level}>")
        elif item:
            if words:
                close()
            items.append(item[1])
        elif items and line.startswith(" "):
            items[-1] += f" {line.strip()}"
        else:
            if items:
                close()
            words.append(line.strip())
    close()
    return html


def _inline(text: str) -> str:
    """Code first: nothing inside it is markup."""
    parts = re.split(r"`([^`]+)`", text)
    return "".join(f"<code>{escape(part)}</code>" if i % 2 else _emphasis(part) for i, part in enumerate(parts))


def _emphasis(text: str) -> str:
    html = ""
    at = 0
    for link in _LINK.finditer(text):
        html += _strong(text[at : link.start()])
        html += f'<a href="{escape(link[2], quote=True)}">{_strong(link[1])}</a>'
        at = link.end()
    return html + _strong(text[at:])


def _strong(text: str) -> str:
    html = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", escape(text))
    return re.sub(r"(?<![\w*])[*_]([^*_]+)[*_](?![\w*])", r"<em>\1</em>", html)
