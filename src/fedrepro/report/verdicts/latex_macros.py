"""A paper's claims as LaTeX commands, for numbers in running text."""

import re
from collections.abc import Sequence

from fedrepro.core.errors import UserError
from fedrepro.report.numbers import NO_VALUE
from fedrepro.report.tables._latex import escape
from fedrepro.report.verdicts.decide import Verdict

NAMES = ("Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
DIGITS = {str(digit): name for digit, name in enumerate(NAMES)}
HEAD = r"""% {source}
% Of each claim what the paper reports, ours, its seeds, at which other target or rounds, and the verdict: \input this file
% once, in the preamble or the text, and write \{example}Ours{{}}. A command is called by the paper and the claim, its digits
% as words.
"""


def macros(paper: str, verdicts: Sequence[Verdict], source: str) -> str:
    """The file. Raises UserError where two claims would have the same commands."""
    names = {item.key: name(paper, item.key) for item in verdicts}
    if twice := [key for key, called in names.items() if list(names.values()).count(called) > 1]:
        raise UserError(
            f"claims {', '.join(twice)}: the same commands in LaTeX; give them keys that differ in a letter or digit"
        )
    example = next(iter(names.values()), name(paper, "claim"))
    lines = [HEAD.format(source=source, example=example)]
    for item in verdicts:
        called = names[item.key]
        lines.append(f"% {' '.join(item.claim.text.split())}\n")
        seeds = str(item.ours.n) if item.ours else NO_VALUE
        told = {
            "Reported": item.reported,
            "Ours": item.our_interval,
            "Seeds": seeds,
            "Asked": item.condition,
            "Verdict": item.status,
        }
        lines += [rf"\newcommand{{\{called}{what}}}{{{latex_value(text)}}}" + "\n" for what, text in told.items()]
    return "".join(lines)


def name(paper: str, claim: str) -> str:
    """Letters only: fedmmd and 4d-reduction are `fedmmdFourDReduction`."""
    words = re.findall("[a-z]+|[A-Z]+|[0-9]", claim)
    parts = [DIGITS.get(word) or word[0].upper() + word[1:] for word in words]
    return "".join(DIGITS.get(letter, letter) for letter in paper if letter.isalnum()) + "".join(parts)


def latex_value(text: str) -> str:
    """As LaTeX that also stands in a formula and does not break before its unit."""
    if text == NO_VALUE:
        return "--"
    plain = escape(text).replace(r"$\pm$", r"\ensuremath{\pm}")
    return re.sub(r"(?<=\d) (?=\\%|points|rounds|nats|epochs)", "~", plain)
