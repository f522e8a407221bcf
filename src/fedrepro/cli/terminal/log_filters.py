"""What the Snakefile says at the start: the cost of what is asked for, and what answers a target that does not exist."""

import logging
import re
from collections.abc import Collection, Mapping

from fedrepro.core.errors import unknown
from fedrepro.experiments import cost

log = logging.getLogger("snakemake.logging")


class Announcement(logging.Filter):
    """Put on Snakemake's logger: as soon as it is known which jobs a command takes, their cost is printed. It drops no record.

    `jobs`: rule -> what is trained in it; `cores`, `here`: as `bill.asked` takes them. The record carries `tasks`, for the line
    of progress.
    """

    def __init__(self, jobs: Mapping[str, list[cost.Entry]], cores: int, here: bool = True) -> None:
        super().__init__()
        self.jobs, self.cores, self.here, self.told = jobs, cores, here, False

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "event", None) == "run_info" and not self.told:
            self.told = True
            asked = [entry for rule in record.stats for entry in self.jobs.get(rule, [])]
            if asked:
                tasks = {str(entry.over): (entry.name, entry.cost.seconds) for entry in asked}
                log.info(cost.asked(asked, self.cores, self.here), extra={"tasks": tasks})
        return True


class Nearest(logging.Filter):
    """Put on Snakemake's logger: a target that is unknown is answered with the nearest of those that there are."""

    def __init__(self, targets: Collection[str]) -> None:
        super().__init__()
        self.targets = targets

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "exception", None) == "MissingRuleException":
            found = re.search(r"No rule to produce ([\w-]+) ", record.getMessage())
            if found and found[1] not in self.targets:
                record.msg, record.args = f"{unknown('target', found[1], self.targets, '; `fedrepro list` shows all')}", None
        return True
