"""The numbers of a paper's claims as LaTeX commands, to be used in running text."""

import re
from collections.abc import Sequence

from fedrepro.core.errors import UserError
from fedrepro.report.numbers import NO_VALUE
from fedrepro.report.tables._latex import escape
from fedrepro.report.verdicts.summary import Record

NAMES = ("Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
DIGITS = {str(digit): name for digit, name in enumerate(NAMES)}
HEAD = r"""% {source}
% Five commands per claim: the reported value, our value, the number of seeds, the target or rounds
% if they differ, and the verdict. \input this file once, in the preamble or the text,
% and write e.g. \{example}Ours{{}}.
% A command is named after the paper and the key of the claim, with digits as words.
"""


def macros(paper: str, records: Sequence[Record], source: str) -> str:
    """Return the text of the file, with the tested claims. Raise UserError if two claims have the
    same commands."""
    names = [name(paper, record.key) for record in records]
    if twice := [
        record.key
        for record, command in zip(records, names, strict=True)
        if names.count(command) > 1
    ]:
        raise UserError(
            f"claims {', '.join(twice)}: the same commands in LaTeX; give them keys that differ "
            f"in a letter or digit"
        )
    lines = [HEAD.format(source=source, example=[*names, name(paper, "claim")][0])]
    for command, one in (pair for pair in zip(names, records, strict=True) if pair[1].tested):
        lines.append(f"% {' '.join(one.claim.split())}\n")
        seeds = NO_VALUE if one.seeds is None else str(one.seeds)
        texts = {
            "Reported": one.reported,
            "Ours": one.interval,
            "Seeds": seeds,
            "Asked": one.asked,
            "Verdict": one.words,
        }
        lines += [
            rf"\newcommand{{\{command}{suffix}}}{{{latex_value(text)}}}" + "\n"
            for suffix, text in texts.items()
        ]
    return "".join(lines)


def name(paper: str, claim: str) -> str:
    """Return the start of a claim's commands, letters only: `fedmmdFourDReduction` for fedmmd and
    4d-reduction."""
    words = re.findall("[a-z]+|[A-Z]+|[0-9]", claim)
    parts = [DIGITS.get(word) or word[0].upper() + word[1:] for word in words]
    return "".join(DIGITS.get(letter, letter) for letter in paper if letter.isalnum()) + "".join(
        parts
    )


def latex_value(text: str) -> str:
    """Return a value as LaTeX that can be used in a formula and is not broken before its unit."""
    if text == NO_VALUE:
        return "--"
    plain = re.sub(r"\$(\\pm|-)\$", r"\\ensuremath{\1}", escape(text))
    return re.sub(r"(?<=\d) (?=\\%|points|rounds|nats|epochs)", "~", plain)
