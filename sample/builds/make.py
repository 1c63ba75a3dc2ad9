"""How the sample of builds was made: twelve prompts, and what six builders put up in blocks.

    python sample/builds/make.py

draws every build as a PNG named by its hash (images/), writes prompts.jsonl, responses/ and the
votes of six weeks (votes.csv.gz) beside this file. Nothing here was made by a model, and no person
voted: builders are planted flaws of one drawing (blocks that are missing, strewn or in the wrong
colour), and the votes are simulated by `arena_kit.matchmaking.simulation`.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from arena_kit import BattleLog, BradleyTerry, write_battles
from arena_kit.battles.log import Labels
from arena_kit.files import write_jsonl
from arena_kit.matchmaking.simulation import World, season
from arena_kit.policy.constants import Policy

HERE = Path(__file__).parent
Block = tuple[int, int, int]
Scene = dict[Block, str]
COLOURS = {
    "grass": "#7cab5b", "water": "#5b9bd0", "stone": "#9a9da3", "dark": "#5d6068",
    "wood": "#8f6b45", "leaf": "#3f7d3c", "brick": "#b3533f", "roof": "#7a3230", "snow": "#f1f4f7",
    "sand": "#dcc68d", "glass": "#aadcec", "gold": "#e6b93a", "coal": "#2d2f33",
}  # fmt: skip
EDGE, SIDE = 224, 12  # pixels of a picture, blocks of the ground


def box(colour: str, x: range, y: range, z: range) -> Scene:
    """All blocks of a cuboid."""
    return {(i, j, k): colour for i in x for j in y for k in z}


def at(start: int, length: int = 1) -> range:
    """So many blocks from a place on."""
    return range(start, start + length)


def house() -> Scene:
    """Walls, a gable roof, a door, two windows and a chimney."""
    scene = box("brick", at(3, 6), at(3, 6), at(1, 4))
    for step in range(4):
        scene |= box("roof", at(2 + step, 8 - 2 * step), at(2, 8), at(5 + step))
    scene |= box("wood", at(8), at(5), at(1, 3)) | box("glass", at(8), at(7), at(3))
    scene |= box("glass", at(5), at(8), at(3)) | box("stone", at(4), at(4), at(6, 4))
    return scene


def tree() -> Scene:
    """A trunk under a round crown with fruit."""
    crown = {
        (i, j, k): "leaf"
        for i in range(12)
        for j in range(12)
        for k in range(4, 11)
        if (i - 5.5) ** 2 + (j - 5.5) ** 2 + (k - 7) ** 2 < 13
    }
    fruit = box("brick", at(8), at(6), at(7)) | box("brick", at(6), at(8), at(6))
    return box("wood", at(5, 2), at(5, 2), at(1, 5)) | crown | fruit


def tower() -> Scene:
    """A tower of stone with battlements and slits."""
    scene = box("stone", at(4, 4), at(4, 4), at(1, 8))
    for i, j in ((3, 3), (5, 3), (7, 3), (3, 5), (3, 7), (8, 4), (8, 6), (8, 8), (4, 8), (6, 8)):
        scene |= box("dark", at(i), at(j), at(9, 2))
    return scene | box("coal", at(7), at(5), at(4, 2)) | box("coal", at(5), at(7), at(6, 2))


def bridge() -> Scene:
    """An arched bridge over water, with rails."""
    scene = box("water", at(0, 12), at(3, 6), at(0))
    for i in range(12):
        height = 1 + round(3 * np.sin(np.pi * i / 11))
        scene |= box("stone", at(i), at(4, 4), at(height)) | box(
            "dark", at(i), at(7), at(height + 1)
        )
    return scene


def pyramid() -> Scene:
    """Steps of sand with a tip of gold."""
    scene: Scene = {}
    for step in range(5):
        scene |= box("sand", at(1 + step, 10 - 2 * step), at(1 + step, 10 - 2 * step), at(1 + step))
    return scene | box("gold", at(5, 2), at(5, 2), at(6)) | box("coal", at(10), at(5, 2), at(1))


def boat() -> Scene:
    """A hull on water with a mast and a sail."""
    scene = box("water", at(0, 12), at(0, 12), at(0)) | box("wood", at(3, 6), at(2, 8), at(1, 2))
    scene |= box("wood", at(4, 4), at(10), at(2)) | box("dark", at(5), at(5), at(3, 7))
    for k in range(3, 9):
        scene |= box("snow", at(6), at(5, max(1, 8 - k)), at(k))
    return scene


def arch() -> Scene:
    """Two pillars under a lintel with a keystone."""
    pillars = box("stone", at(2, 2), at(5, 2), at(1, 7)) | box(
        "stone", at(8, 2), at(5, 2), at(1, 7)
    )
    return (
        pillars
        | box("dark", at(1, 10), at(5, 2), at(8, 2))
        | box("gold", at(5, 2), at(6), at(8, 2))
    )


def stairs() -> Scene:
    """Steps that turn round a corner up to a gate."""
    scene: Scene = {}
    for step in range(5):
        scene |= box("stone", at(10 - step), at(2, 3), at(1, step + 1))
        scene |= box("stone", at(3, 3), at(5 + step), at(1, 5 - step))
    return scene | box("brick", at(3, 3), at(2, 3), at(1, 6)) | box("wood", at(5), at(3), at(6, 2))


def castle() -> Scene:
    """Four corner towers joined by walls, with a gate."""
    scene = box("stone", at(2, 8), at(2), at(1, 3)) | box("stone", at(2), at(2, 8), at(1, 3))
    scene |= box("stone", at(2, 8), at(9), at(1, 3)) | box("stone", at(9), at(2, 8), at(1, 3))
    for i, j in ((1, 1), (1, 9), (9, 1), (9, 9)):
        scene |= box("dark", at(i, 2), at(j, 2), at(1, 6)) | box("roof", at(i, 2), at(j, 2), at(7))
    return scene | box("wood", at(9), at(5, 2), at(1, 2))


def snowman() -> Scene:
    """Three balls of snow, with hat, nose and eyes."""
    scene: Scene = {}
    for middle, radius in ((3, 3.0), (7, 2.3), (10, 1.6)):
        scene |= {
            (i, j, k): "snow"
            for i in range(12)
            for j in range(12)
            for k in range(1, 13)
            if (i - 5.5) ** 2 + (j - 5.5) ** 2 + (k - middle) ** 2 < radius**2
        }
    eyes = box("coal", at(7), at(5), at(10)) | box("coal", at(7), at(7), at(10))
    return (
        scene
        | eyes
        | box("brick", at(7, 2), at(6), at(9))
        | box("coal", at(5, 2), at(5, 2), at(12, 2))
    )


def lighthouse() -> Scene:
    """A striped tower with a lamp, on a rock in the sea."""
    scene = box("water", at(0, 12), at(0, 12), at(0)) | box("stone", at(3, 6), at(3, 6), at(1))
    for k in range(2, 9):
        scene |= box("brick" if k % 4 < 2 else "snow", at(5, 3), at(5, 3), at(k))
    return scene | box("gold", at(5, 3), at(5, 3), at(9)) | box("roof", at(6), at(6), at(10, 2))


def windmill() -> Scene:
    """A mill with four sails in a field."""
    scene = box("snow", at(4, 4), at(4, 4), at(1, 6)) | box("roof", at(4, 4), at(4, 4), at(7))
    for step in range(1, 5):
        for i, k in ((step, 0), (-step, 0), (0, step), (0, -step)):
            scene |= box("wood", at(8), at(6 + i), at(6 + k))
    return scene | box("gold", at(8), at(6), at(6)) | box("wood", at(6), at(7), at(1, 2))


#: What is asked for, by the prompt's id.
SCENES: dict[str, tuple[str, Callable[[], Scene]]] = {
    "house": ("a brick house with a gable roof, a door, windows and a chimney", house),
    "tree": ("a tree with a round crown and red fruit", tree),
    "tower": ("a stone tower with battlements and arrow slits", tower),
    "bridge": ("an arched stone bridge over a river", bridge),
    "pyramid": ("a stepped pyramid with a golden tip", pyramid),
    "boat": ("a sailing boat on the water", boat),
    "arch": ("a triumphal arch with a golden keystone", arch),
    "stairs": ("stairs that turn a corner and lead up to a gate", stairs),
    "castle": ("a small castle with four corner towers and a gate", castle),
    "snowman": ("a snowman with a hat, eyes and a nose", snowman),
    "lighthouse": ("a striped lighthouse on a rock in the sea", lighthouse),
    "windmill": ("a windmill with four sails", windmill),
}


class Builder(NamedTuple):
    """Flaws: the shares of blocks missing and strewn, and of colours changed for another."""

    missing: float
    strewn: float
    recoloured: float


#: Best first.
BUILDERS = {
    "granite": Builder(0, 0, 0),
    "marble": Builder(0.03, 0, 0.02),
    "slate": Builder(0.08, 0.01, 0.05),
    "basalt": Builder(0.05, 0.05, 0.12),
    "sandstone": Builder(0.22, 0.02, 0.1),
    "chalk": Builder(0.35, 0.1, 0.35),
}


def built(scene: Scene, builder: Builder, rng: np.random.Generator) -> Scene:
    """What a builder makes of a scene, on grass."""
    names = list(COLOURS)
    made = {
        block: names[rng.integers(len(names))] if rng.random() < builder.recoloured else colour
        for block, colour in scene.items()
        if rng.random() >= builder.missing
    }
    for _ in range(round(builder.strewn * len(scene))):
        place = tuple(int(each) for each in rng.integers((0, 0, 1), (SIDE, SIDE, 9)))
        made[place] = names[rng.integers(len(names))]  # type: ignore[index]
    return box("grass", at(0, SIDE), at(0, SIDE), at(0)) | made


def drawn(scene: Scene) -> bytes:
    """The blocks from above and aside, as PNG without metadata."""
    image = Image.new("RGB", (2 * EDGE, 2 * EDGE), "#eef3f8")
    pen = ImageDraw.Draw(image)
    for (x, y, z), colour in sorted(scene.items(), key=lambda item: (sum(item[0]), item[0][2])):
        left, top = EDGE + (x - y) * 17, 190 + (x + y) * 9 - z * 14
        red, green, blue = (int(COLOURS[colour][n : n + 2], 16) for n in (1, 3, 5))
        for light, face in faces(left, top):
            shade = (int(red * light), int(green * light), int(blue * light))
            pen.polygon(face, fill=shade, outline=tuple(int(0.8 * each) for each in shade))
    out = BytesIO()
    small = image.resize((EDGE, EDGE), Image.Resampling.LANCZOS)
    small.quantize(48, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


def faces(left: int, top: int) -> Iterator[tuple[float, list[tuple[int, int]]]]:
    """The three faces that are seen of a block, and how much light each has."""
    peak, west, east = (left, top), (left - 17, top + 9), (left + 17, top + 9)
    front, down = (left, top + 18), 14
    yield 1.0, [peak, east, front, west]
    yield 0.82, [west, front, (front[0], front[1] + down), (west[0], west[1] + down)]
    yield 0.64, [front, east, (east[0], east[1] + down), (front[0], front[1] + down)]


def write_builds() -> None:
    """Prompts, responses and pictures."""
    rows = [
        {"prompt_id": name, "text": f"Build {what}.", "source": "blocks"}
        for name, (what, _) in SCENES.items()
    ]
    write_jsonl(HERE / "prompts.jsonl", rows)
    shutil.rmtree(HERE / "images", ignore_errors=True)
    (HERE / "images").mkdir()
    for n, (name, builder) in enumerate(BUILDERS.items()):
        rows = []
        for m, (prompt, (_, scene)) in enumerate(SCENES.items()):
            content = drawn(built(scene(), builder, np.random.default_rng((n, m))))
            image = f"{hashlib.sha256(content).hexdigest()}.png"
            (HERE / "images" / image).write_bytes(content)
            said = [{"role": "assistant", "content": [{"type": "image", "image": image}]}]
            rows.append({"entrant_id": name, "prompt_id": prompt, "messages": said})
        write_jsonl(HERE / "responses" / f"responses_{name}.jsonl", rows)


def votes() -> BattleLog:
    """Six weeks of votes under the shipped policy; the strongest of the planted models is named
    for the builder with the fewest flaws, and so on.
    """
    world = World(models=len(BUILDERS), prompts=len(SCENES), matchups=1500)
    start, rng = datetime(2026, 9, 7, tzinfo=UTC), np.random.default_rng(20261117)
    planted = season(world, Policy(), rng=rng, start=start, days=42)
    named = dict(zip(BradleyTerry()(planted).order, BUILDERS, strict=True))
    if planted.session is None or planted.question_id is None:
        raise TypeError("a season has sessions and questions")
    asked = dict(zip(sorted(set(planted.question_id.values())), SCENES, strict=True))
    return replace(
        planted,
        models=tuple(named[model] for model in planted.models),
        question_id=Labels.of([asked[each] for each in planted.question_id.values()]),
        session=Labels.of([s.replace("voter", "simulated") for s in planted.session.values()]),
    )


if __name__ == "__main__":
    write_builds()
    write_battles(HERE / "votes.csv.gz", votes())
