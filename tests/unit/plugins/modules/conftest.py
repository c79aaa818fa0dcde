# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs a module's main() in this process, with arguments as Ansible hands them over."""

from __future__ import annotations

import contextlib
import json
import typing as t

import pytest
from ansible.module_utils import basic

try:
    from ansible.module_utils.testing import patch_module_args  # ansible-core 2.19 and newer
except ImportError:

    @contextlib.contextmanager
    def patch_module_args(args: dict[str, t.Any] | None = None) -> t.Iterator[None]:
        """Make args the arguments of the next AnsibleModule (ansible-core 2.18)."""
        before, basic._ANSIBLE_ARGS = basic._ANSIBLE_ARGS, json.dumps({"ANSIBLE_MODULE_ARGS": args}).encode()
        try:
            yield
        finally:
            basic._ANSIBLE_ARGS = before


class ModuleResult(t.NamedTuple):
    """What a module answered: its exit status and its JSON."""

    rc: int
    data: dict[str, t.Any]

    @property
    def changed(self) -> bool:
        return bool(self.data["changed"])

    @property
    def failed(self) -> bool:
        return bool(self.data.get("failed", False))

    @property
    def msg(self) -> str:
        return str(self.data.get("msg", ""))


class RunModule(t.Protocol):
    """The type of the fixture run_module."""

    def __call__(
        self, main: t.Callable[[], t.Any], check: bool = False, diff: bool = False, **params: t.Any
    ) -> ModuleResult:
        """Run main() with params; check and diff are Ansible's modes."""


@pytest.fixture(autouse=True)
def on_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has loaded a controller plugin too would show a module's warnings instead of returning them."""
    try:
        from ansible.module_utils import _internal
    except ImportError:  # ansible-core 2.18
        return
    monkeypatch.setattr(_internal, "is_controller", False, raising=False)


@pytest.fixture
def run_module(capfd: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory) -> RunModule:
    """Run a module's main() and return what it answered; a module that does not answer fails the test."""

    def run(main: t.Callable[[], t.Any], check: bool = False, diff: bool = False, **params: t.Any) -> ModuleResult:
        args = dict(
            params,
            _ansible_check_mode=check,
            _ansible_diff=diff,
            _ansible_remote_tmp=str(tmp_path_factory.mktemp("remote_tmp")),
        )
        capfd.readouterr()
        with patch_module_args(args), pytest.raises(SystemExit) as end:
            main()
        return ModuleResult(int(end.value.code or 0), json.loads(capfd.readouterr().out))

    return run
