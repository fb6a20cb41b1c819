"""The host of the run itself: launches are children of the run's process, one after the other."""

from __future__ import annotations

from suite.plan.command.common import LOCAL
from suite.session.engines import Engine

ENGINE = Engine(LOCAL, "on this host")
