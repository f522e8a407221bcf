"""Errors for imports of modules that were renamed: they name the new module, so that an old script is quickly corrected."""

import importlib
import importlib.abc
import importlib.util
from collections.abc import Callable
from typing import Any

MODULES = {  # below the package: old -> new
    "commands": "cli.commands",
    "datasets": "data.datasets",
    "devices": "training.devices",
    "drawings": "experiments.partition_jobs",
    "engine": "training",
    "errors": "core.errors",
    "estimate": "experiments.cost_model",
    "export": "experiments.run_list",
    "fields": "config.types",
    "files": "core.files",
    "keeping": "experiments.keep",
    "listing": "cli.targets",
    "lookup": "experiments.run_lookup",
    "measures": "core.metrics",
    "metrics": "report.statistics",
    "overlays": "config.inheritance",
    "packing": "experiments.jobs",
    "partitions": "data.partitions",
    "paths": "runs.paths",
    "picture": "data.partitions._store",
    "plainyaml": "config.strict_yaml",
    "provenance": "core.provenance",
    "pruning": "experiments.prune",
    "registry": "config.registry",
    "release": "data.source_label",
    "report.captions": "report.artifacts",
    "report.cells": "report.quantities",
    "report.claims": "report.verdicts.claim",
    "report.content": "report.documents.content",
    "report.crate": "report.documents.ro_crate",
    "report.document": "report.documents.latex_report",
    "report.drawing": "report.figures._layout",
    "report.evidence": "report.inputs.panel",
    "report.grid": "report.tables._grid",
    "report.guide": "cli.docs",
    "report.heatmap": "report.figures._partition_heatmap",
    "report.html": "report.documents.html",
    "report.known": "report.inputs.references",
    "report.latex": "report.tables._latex",
    "report.loading": "report.inputs.gathered",
    "report.looks": "report.palette",
    "report.macros": "report.verdicts.latex_macros",
    "report.notebook": "report.documents.notebook",
    "report.origin": "report.inputs.gathered",
    "report.page": "report.documents.build",
    "report.phrases": "report.settings_table",
    "report.plain": "report.documents.dvc_files",
    "report.plotted": "report.verdicts.paper_curves",
    "report.figures.leads": "report.figures.curves",
    "report.quantities.epochs_saved": "report.quantities.studies",
    "report.quantities.gains_more": "report.quantities.curves",
    "report.quantities.higher": "report.quantities.curves",
    "report.quantities.keeps": "report.quantities.curves",
    "report.quantities.never": "report.quantities.curves",
    "report.quantities.no_lower": "report.quantities.curves",
    "report.quantities.reduction": "report.quantities.curves",
    "report.rendering": "report.documents.templating",
    "report.rules": "report.verdicts.rules",
    "report.schema": "report.paper",
    "report.settings": "report.settings_table",
    "report.settings_text": "report.settings_table",
    "report.spec": "report.paper",
    "report.tally": "report.verdicts.summary",
    "report.tables.crossed": "report.tables.values",
    "report.typeset": "report.documents.pdf",
    "report.view": "report.documents.page_view",
    "resolving": "experiments.resolve",
    "rng": "core.rng",
    "schedules": "training.schedules",
    "schema": "config.json_schema",
    "stored": "runs.dvc_store",
    "studying": "experiments.study_plan",
    "tasks": "models.tasks",
    "terminal": "cli.terminal",
    "tracking": "runs.mlflow_mirror",
    "words": "core.formatting",
    "working": "training.runner",
}

CONTENTS = {  # packages that were modules: package -> the module with the former contents
    "cli": "cli.main",
    "config": "config.params",
    "experiments": "experiments.plan",
    "report.verdicts": "report.verdicts.decide",
    "runs": "runs.run",
    "training": "training.runner",
}


class MovedModuleFinder(importlib.abc.MetaPathFinder):
    """A finder that raises for a renamed module and finds no other. It comes first: an old package's bytecode may be left."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        old = name.removeprefix("fedrepro.")
        if old != name and old in MODULES:
            raise ModuleNotFoundError(f"{name} is now fedrepro.{MODULES[old]}")  # with `name=` a `from` import would hide it


def moved_names(package: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package that was a module: it raises an error with the new place of a former name."""

    def raise_with_new_place(name: str) -> Any:
        new = f"fedrepro.{CONTENTS[package.removeprefix('fedrepro.')]}"
        dunder = name.startswith("__")
        if not dunder and importlib.util.find_spec(f"{package}.{name}") is None and hasattr(importlib.import_module(new), name):
            raise ImportError(f"{package}.{name} is now {new}.{name}")
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return raise_with_new_place
