"""Pictures: made safe, named by their hash, and scaled for a judge.

A picture that is read from outside is decoded and written anew, which leaves metadata behind: no
name, place, camera or software of who made it goes on. SVG is parsed and written anew, too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree as ET

from arena_kit.battles.content import Conversation, Pictures
from arena_kit.files import DataError, whole_file

if TYPE_CHECKING:
    from PIL import Image

FOLDER = "images"
MEDIA_TYPES = {"png": "image/png", "jpg": "image/jpeg", "svg": "image/svg+xml"}
#: Decoding takes four bytes a pixel.
MAX_PIXELS = 50_000_000
MAX_BYTES = 30_000_000
_NAME = re.compile(r"[0-9a-f]{64}\.(?:png|jpg|svg)")
NAMES = re.compile(_NAME.pattern.encode())
#: A picture costs a token for each square of so many pixels (platform.claude.com, vision, 2026).
_PATCH = 28
#: The most bytes (5 MB in base64) and pixels of an edge that services take of a picture.
_MOST_SENT, _MOST_EDGE = 3_900_000, 8000
#: The longest edge of a picture on a page, in pixels.
_SHOWN_EDGE = 1568
_SVG = "{http://www.w3.org/2000/svg}"
#: Elements of SVG that draw; none of them runs, embeds or fetches anything.
_DRAWN = {
    f"{_SVG}{name}" for name in (
        "svg g path rect circle ellipse line polyline polygon text tspan defs use linearGradient "
        "radialGradient stop clipPath mask pattern symbol marker title desc metadata style"
    ).split()
}  # fmt: skip
_UNDRAWN = {f"{_SVG}{name}" for name in ("title", "desc", "metadata")}


class PictureFiles(Pictures):
    """Pictures beside a file: those that it names by hash lie in `images/` there, or one folder
    up; others, by a path or a data URL, are read and made safe unless `named_only`.
    """

    def __init__(self, file: Path, *, named_only: bool = False) -> None:
        super().__init__()
        self.beside, self.named_only = file.parent, named_only

    def __call__(self, reference: str) -> str:
        if _NAME.fullmatch(reference):
            self[reference] = self._kept(reference)
            return reference
        if self.named_only:
            why = "not named by its SHA-256; arena-kit import does that"
            raise DataError(f"picture {reference[:60]!r} is {why}")
        name, content = _made_safe(_content(reference, self.beside), reference[:60])
        self[name] = content
        return name

    def _kept(self, name: str) -> Path:
        places = [self.beside / FOLDER / name, self.beside.parent / FOLDER / name]
        for path in places:
            if path.is_file():
                if name.endswith(".svg"):
                    _safe_svg(path.read_bytes(), name)
                else:
                    _opened(path, name).close()
                return path
        raise DataError(f"picture {name} is missing; expected it in {places[0].parent}")


def write_pictures(folder: Path, texts: Iterable[str | None]) -> None:
    """Write the pictures of conversations to `images/` of a folder."""
    for text in texts:
        for name, source in text.pictures.items() if isinstance(text, Conversation) else ():
            with whole_file(folder / FOLDER / name) as part:
                part.write_bytes(picture_bytes(name, source))


def picture_bytes(name: str, source: Path | bytes) -> bytes:
    """What a picture's file holds, if that has the hash of its name."""
    content = source if isinstance(source, bytes) else source.read_bytes()
    if hashlib.sha256(content).hexdigest() != name.partition(".")[0]:
        where = source if isinstance(source, Path) else name
        raise DataError(f"{where}: changed since it was named")
    return content


@lru_cache(maxsize=128)
def data_url(name: str, source: Path | bytes) -> str:
    """A picture for people as an address that holds it, with neither metadata nor its file's name;
    a large one is scaled.
    """
    clean, content = _made_safe(picture_bytes(name, source), name)
    if not clean.endswith(".svg"):
        content = scaled(clean, content, _SHOWN_EDGE)[1]
    return f"data:{MEDIA_TYPES[clean[65:]]};base64,{base64.b64encode(content).decode()}"


@lru_cache(maxsize=128)
def scaled(name: str, source: Path | bytes, edge: int) -> tuple[str, bytes]:
    """The media type and the content of a picture for a judge, none of its edges longer than
    `edge` pixels; 0 leaves it as it is.
    """
    content, limit = picture_bytes(name, source), edge
    with _opened(BytesIO(content), name) as image:
        if not edge and (max(image.size) > _MOST_EDGE or len(content) > _MOST_SENT):
            size = f"{len(content):,} bytes and {image.width} × {image.height} pixels"
            allowed = f"{_MOST_SENT:,} bytes and edges of {_MOST_EDGE} pixels"
            raise DataError(f"picture {name} has {size}; judges take {allowed}: set image_edge")
        while edge and (max(image.size) > edge or len(content) > _MOST_SENT):
            image.thumbnail((limit, limit))
            content, limit = _encoded(image, name[65:]), limit * 3 // 4
    return MEDIA_TYPES[name[65:]], content


@lru_cache(maxsize=100_000)
def picture_tokens(source: Path | bytes, edge: int) -> int:
    """What a picture costs in tokens at most, as `scaled`."""
    with _opened(BytesIO(source) if isinstance(source, bytes) else source, "") as image:
        factor = min(1.0, edge / max(image.size)) if edge else 1.0
        width, height = (ceil(ceil(side * factor) / _PATCH) for side in image.size)
    return width * height


def _content(reference: str, folder: Path) -> bytes:
    """What a path or a data URL refers to; nothing is fetched."""
    what = f"picture {reference[:60]!r}"
    if reference.startswith("data:"):
        head, _, data = reference.partition(",")
        try:
            return base64.b64decode(data) if head.endswith(";base64") else unquote_to_bytes(data)
        except binascii.Error:
            raise DataError(f"{what} is not a whole data URL") from None
    if re.match(r"\w+://", reference):
        raise DataError(f"{what} is an address, which is not fetched; save it as a file")
    path = (folder / reference).resolve()
    if not path.is_relative_to(folder.resolve()) or not path.is_file():
        raise DataError(f"{what} is missing in {folder}")
    if path.stat().st_size > MAX_BYTES:
        raise DataError(f"{what} has over {MAX_BYTES:,} bytes")
    return path.read_bytes()


def _made_safe(content: bytes, what: str) -> tuple[str, bytes]:
    """A picture without metadata, and its name."""
    vector = content[:1000].lstrip().startswith(b"<") and b"<svg" in content[:10_000].lower()
    suffix, clean = ("svg", _safe_svg(content, what)) if vector else _safe_image(content, what)
    return f"{hashlib.sha256(clean).hexdigest()}.{suffix}", clean


def _safe_image(content: bytes, what: str) -> tuple[str, bytes]:
    """Pixels decoded and encoded again: JPEG stays JPEG, all else becomes PNG."""
    from PIL import ImageOps

    with _opened(BytesIO(content), what) as image:
        suffix = "jpg" if image.format == "JPEG" else "png"
        try:
            image.load()
        except Exception as error:  # of a decoder that is given any bytes
            raise _damaged(what, error) from None
        with suppress(Exception):  # orientation in damaged EXIF
            ImageOps.exif_transpose(image, in_place=True)
        return suffix, _encoded(image, suffix)


def _opened(source: Path | BytesIO, what: str) -> Image.Image:
    """A picture whose header was read: its kind, and that it is not too large."""
    from PIL import Image

    try:
        image = Image.open(source, formats=("PNG", "JPEG", "WEBP"))
    except Image.DecompressionBombError:
        raise DataError(f"picture {what!r} has over {MAX_PIXELS:,} pixels") from None
    except Exception as error:  # of a decoder that is given any bytes
        raise _damaged(what, error) from None
    if image.width * image.height > MAX_PIXELS:
        raise DataError(f"picture {what!r} has over {MAX_PIXELS:,} pixels")
    return image


def _damaged(what: str, error: Exception) -> DataError:
    why = f"not a whole PNG, JPEG, WebP or SVG ({type(error).__name__})"
    return DataError(f"picture {what!r} is {why}")


def _encoded(image: Image.Image, suffix: str) -> bytes:
    """The pixels of an image alone, as a file."""
    from PIL import Image

    kind, modes = ("JPEG", ("RGB", "L")) if suffix == "jpg" else ("PNG", ("RGBA", "RGB", "LA", "L"))
    mode = image.mode if image.mode in modes else modes[0]
    bare, out = Image.new(mode, image.size), BytesIO()
    bare.paste(image.convert(mode))
    bare.save(out, kind, **({"quality": 95} if kind == "JPEG" else {}))
    return out.getvalue()


def _safe_svg(content: bytes, what: str) -> bytes:
    """An SVG that only draws, without titles, metadata and comments."""
    if b"<!" in content.replace(b"<!--", b""):
        raise DataError(f"picture {what!r} is an SVG with a document type, which is not allowed")
    try:
        root = ET.fromstring(content)  # noqa: S314 (no document type, so no entities)
    except ET.ParseError as error:
        raise DataError(f"picture {what!r} is not a whole SVG ({error})") from None
    for element in root.iter():
        if bad := next(_not_drawing(element), None):
            raise DataError(f"picture {what!r} is an SVG with {bad[:60]}, which is not allowed")
    for element in list(root.iter()):
        for child in [each for each in element if each.tag in _UNDRAWN]:
            element.remove(child)
    ET.register_namespace("", _SVG[1:-1])
    return ET.tostring(root)


def _not_drawing(element: ET.Element) -> Iterator[str]:
    """What in an element runs, embeds or refers to something else."""
    if element.tag not in _DRAWN:
        yield f"<{str(element.tag).rpartition('}')[2]}>"
    for name, value in [*element.attrib.items(), ("style", element.text or "")]:
        plain = name.rpartition("}")[2].lower()
        if plain.startswith("on") or (plain == "href" and not value.startswith("#")):
            yield plain
        if re.search(r"url\((?!\s*['\"]?#)|@import|javascript:", value, re.IGNORECASE):
            yield "a reference to another file"
