"""The release that a record was measured with, and what is known to be wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from suite.catalog.defects import UNSOUND, Defect, find_defects
from suite.catalog.frameworks import FRAMEWORKS
from suite.catalog.setting import VERSION
from suite.record.record import Record
from suite.record.text import clean

#: The flag of launches of a release that computes wrongly or crashes on their device. Their rows keep their ratios:
#: whether a row met the defect is what its evidence shows.
UNSOUND_RELEASE = "unsound-release"


def release_of(record: Record) -> str:
    """The framework's version in a record, which its cell names where the packages do not; empty without either."""
    versions = record.environment.get("packages")
    names = FRAMEWORKS[record.cell.framework].distributions
    found = (versions[name] for name in names if name in versions) if isinstance(versions, Mapping) else ()
    recorded = clean(next(iter(found), ""), 40)
    return recorded if re.match(VERSION, recorded) else record.cell.release


def unsound(record: Record) -> list[Defect]:
    """Why a record's release is unsound on its device; empty if it is not."""
    known = find_defects(record.cell.framework, release_of(record), (str(record.settings.get("device")),))
    return [each for each in known if each.kind in UNSOUND]
