"""Data sets; `source.py` describes what each declares, in a table `SOURCES` of a module here."""

import importlib
import pkgutil

from fedrepro.data.datasets.base import (
    META,
    Dataset,
    DatasetLabels,
    LabelledSubset,
    check_available,
    classes,
    contents,
    extent,
    fetch,
    has_files,
    identify,
    is_copy,
    is_identified,
    key,
    labels,
    load,
    origin,
    pinned,
    planned_identity,
    prepare,
    provide,
    raw_folder,
    reader_digest,
)

SOURCES = {  # name -> source, of all modules, so that adding a file registers its data sets
    name: source
    for module in pkgutil.iter_modules(__path__)
    for name, source in getattr(
        importlib.import_module(f"{__name__}.{module.name}"), "SOURCES", {}
    ).items()
}
