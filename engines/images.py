"""What an image reference tells of the release inside."""

from __future__ import annotations

import re
from typing import Final

from engines import Version, version_of

RELEASE: Final = re.compile(r"v?(\d+\.\d+\S*)")


def version_of_image(image: str) -> Version | None:
    """Return the release that a tag begins with, `lmsysorg/sglang:v0.5.21-cu126` -> (0, 5, 21).

    A tag that begins otherwise (`latest`, `nightly-...`) or a bare digest tells nothing.
    """
    name = image.split("@", maxsplit=1)[0].rsplit("/", maxsplit=1)[-1]
    _, _, tag = name.partition(":")
    found = RELEASE.match(tag)
    return version_of(found[1].split("-")[0]) if found else None
