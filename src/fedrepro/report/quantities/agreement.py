"""How often two clients' units at the same place of the network answer most to one class, from the study `preferences`: the
share of such pairs among those that both have a top class, in each block, averaged over the `blocks` (default: all) that have
any, 0 without. With a `baseline` the lead over the baseline's.

In groups of one class (Psi-Net) a unit influences the scores of its group's classes alone, so that its top class is this one or
none: there all pairs agree by design, whatever was learnt.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from fedrepro.core.errors import UserError, unknown_name_message
from fedrepro.report.quantities._study import Row, StudyQuantity
from fedrepro.report.statistics import mean
from fedrepro.studies.preferences import NO_CLASS


class Quantity(StudyQuantity):
    blocks: tuple[str, ...] = ()
    study = "preferences"
    title = "pairs of clients that agree on a unit's top class"
    studied = "top classes of units"

    def of_rows(self, rows: Sequence[Row]) -> float:
        known = dict.fromkeys(row["block"] for row in rows)
        if unknown := next((name for name in self.blocks if name not in known), None):
            raise UserError(f"agreement: blocks: {unknown_name_message('block', unknown, known)}")
        blocks: dict[str, dict[str, Counter[int]]] = {}
        for row in rows:
            if row["block"] in (self.blocks or known) and (top := int(row["class"])) != NO_CLASS:
                blocks.setdefault(row["block"], {}).setdefault(row["unit"], Counter())[top] += 1
        shares = [_agreeing_share(units.values()) for units in blocks.values()]
        return mean([share for share in shares if share is not None] or [0])


def _agreeing_share(units: Collection[Counter[int]]) -> float | None:
    """Return the share of pairs of clients with the same class, None without any; units: class -> clients, of each."""
    agreeing = sum(count * (count - 1) for unit in units for count in unit.values())
    pairs = sum(unit.total() * (unit.total() - 1) for unit in units)
    return agreeing / pairs if pairs else None
