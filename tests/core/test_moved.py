"""Importing a module under its old name raises an error with the new name."""

import importlib

import pytest

from fedrepro.core import moved


@pytest.mark.parametrize("old", moved.MODULES)
def test_an_old_module_is_answered_with_its_new_place(old):
    with pytest.raises(ModuleNotFoundError, match=f"^fedrepro.{old} is now fedrepro.{moved.MODULES[old]}$"):
        importlib.import_module(f"fedrepro.{old}")
    importlib.import_module(f"fedrepro.{moved.MODULES[old]}")


def test_what_was_in_a_module_that_is_a_package_now():
    for package, holder in moved.CONTENTS.items():
        importlib.import_module(f"fedrepro.{holder}")
        assert importlib.import_module(f"fedrepro.{package}").__path__
    with pytest.raises(ImportError, match="^fedrepro.config.RunConfig is now fedrepro.config.params.RunConfig$"):
        from fedrepro.config import RunConfig  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        from fedrepro.config import nonsense  # noqa: F401
