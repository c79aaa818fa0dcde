# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib
import random
import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils.errors import InputError
from ansible_collections.hpc.fabric.plugins.module_utils.imex import config_edit, config_file, config_rules

FIXTURES = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "config_file"


def table(name: str) -> list[t.Any]:
    rows = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    return [pytest.param(row, id=row["name"]) for row in rows]


def text_of(row: dict[str, t.Any]) -> str:
    """The text of a row; "@name" is a file beside the table."""
    text = str(row["text"])
    return (FIXTURES / text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text


def after_of(row: dict[str, t.Any]) -> str:
    """What must come out: the whole text, or the one before with these parts replaced and that one appended."""
    if "after" in row:
        return str(row["after"])
    after = text_of(row)
    for old, new in row["replaced"].items():
        assert after.count(old) == 1
        after = after.replace(old, new)
    return after + str(row.get("appended", ""))


@pytest.mark.parametrize("row", table("edit"))
def test_edit(row: dict[str, t.Any]) -> None:
    if "errors" in row:
        with pytest.raises(InputError) as error:
            config_edit.edit(row["text"], row["set"], "/etc/config.cfg")
        assert str(error.value).startswith("/etc/config.cfg cannot be used, nothing was written: ")
        for part in row["errors"]:
            assert part in str(error.value)
        return
    edited = config_edit.edit(text_of(row), row["set"], "/etc/config.cfg")
    assert edited.text == after_of(row)
    assert [list(change) for change in edited.changes] == row["changes"]
    again = config_edit.edit(edited.text, row["set"], "/etc/config.cfg")
    assert again == (edited.text, ())


def test_edit_of_any_key_of_the_stock_file_changes_its_line_only() -> None:
    text = (FIXTURES / "stock.cfg").read_text(encoding="utf-8")
    known = config_file.parse(text, "x").values
    assert len(known) > 30
    for key, value in known.items():
        edited = config_edit.edit(text, {key: "other"}, "x")
        assert edited.text == text.replace(f"\n{key}={value}\n", f"\n{key}=other\n")
        assert edited.text != text


@pytest.mark.parametrize("row", table("check"))
def test_check(row: dict[str, t.Any]) -> None:
    limits = dict(row["limits"])
    for name in ("ephemeral", "reserved"):
        if name in limits:
            limits[name] = tuple(tuple(item) if isinstance(item, list) else item for item in limits[name])
    arguments = (row["values"], config_file.Limits(**limits), row["given"])
    if "errors" in row:
        with pytest.raises(InputError) as error:
            config_rules.check(*arguments, what="config.cfg")
        for part in ["config.cfg cannot be used", *row["errors"]]:
            assert part in str(error.value)
        return
    warnings = config_rules.check(*arguments)
    assert len(warnings) == len(row["warnings"])
    for warning, part in zip(warnings, row["warnings"]):
        assert part in warning


@pytest.mark.parametrize("row", table("normalise"))
def test_normalise(row: dict[str, t.Any]) -> None:
    if "errors" in row:
        with pytest.raises(InputError) as error:
            config_edit.normalise(row["given"])
        for part in row["errors"]:
            assert part in str(error.value)
        return
    assert config_edit.normalise(row["given"]) == row["result"]


def test_parse_reads_what_edit_refuses() -> None:
    found = config_file.parse("A=1\nA=2\nhalf\n# B=3\nC = 4 # x\n", "/etc/config.cfg")
    assert found.values == {"A": "1", "C": "4"}
    assert found.duplicates == {"A": (1, 2)}
    assert found.problems == ("line 3 'half'",)
    assert len(found.warnings) == 1
    assert "/etc/config.cfg line 5" in found.warnings[0]


def test_edit_keeps_every_other_byte_of_any_file() -> None:
    dice = random.Random(20260102)
    for _round in range(300):
        end = dice.choice(["\n", "\r\n"])
        lines = []
        for number in range(dice.randrange(1, 12)):
            lines.append(
                dice.choice(
                    [
                        f"KEY{number}={number}",
                        f" KEY{number} =  {number} ",
                        f"#KEY{number}={number}",
                        "",
                        "# caf\udce9",
                        f"KEY{number}={number} # c",
                    ]
                )
            )
        text = dice.choice(["", "\ufeff"]) + end.join(lines) + dice.choice(["", end])
        known = config_file.parse(text, "x").values
        if not known:
            continue
        key = dice.choice(sorted(known))
        edited = config_edit.edit(text, {key: "other"}, "x")
        assert config_file.parse(edited.text, "x").values == dict(known, **{key: "other"})
        # Back again gives the very same bytes.
        assert config_edit.edit(edited.text, {key: known[key]}, "x").text == text


@pytest.mark.parametrize(
    "key, expected",
    [
        ("LOG_LEVEL", "local"),
        ("STATS_FILE_NAME", "local"),
        ("IMEX_NODE_DISCONNECTED_GRACE_TIME", "local"),
        ("SERVER_PORT", "domain"),
        ("IMEX_WAIT_FOR_QUORUM", "domain"),
        ("IMEX_SERVER_KEY", "domain"),
        ("IMEX_SOMETHING_NEW", "domain"),
    ],
)
def test_key_class(key: str, expected: str) -> None:
    assert config_file.key_class(key) == expected


def test_value_is_the_file_then_the_documented_default() -> None:
    assert config_file.value({"SERVER_PORT": "1"}, "SERVER_PORT") == "1"
    assert config_file.value({}, "SERVER_PORT") == "50000"
    assert config_file.value({}, "IMEX_NODE_CONFIG_FILE") == "/etc/nvidia-imex/nodes_config.cfg"
    assert config_file.value({"LOG_FILE_NAME": ""}, "LOG_FILE_NAME") == ""
    assert config_file.value({}, "IMEX_UNKNOWN") == ""


def test_what_no_document_says_is_not_known() -> None:
    assert config_file.effective({}, "SERVER_PORT") == "50000"
    assert config_file.effective({}, "IMEX_CMD_ENABLED") is None
    assert config_file.effective({"IMEX_CMD_ENABLED": "1"}, "IMEX_CMD_ENABLED") == "1"


def test_digest_does_not_depend_on_the_order() -> None:
    assert config_file.digest({"A": "1", "B": "2"}) == config_file.digest({"B": "2", "A": "1"})
    assert config_file.digest({"A": "1"}) != config_file.digest({"A": "2"})


def test_port_ranges_of_the_kernel(tmp_path: pathlib.Path) -> None:
    assert config_rules.ephemeral_range(str(tmp_path)) is None
    assert config_rules.reserved_ports(str(tmp_path)) == ()
    folder = tmp_path / "sys/net/ipv4"
    folder.mkdir(parents=True)
    (folder / "ip_local_port_range").write_text("32768\t60999\n")
    (folder / "ip_local_reserved_ports").write_text("50000,50005-50010\n")
    assert config_rules.ephemeral_range(str(tmp_path)) == (32768, 60999)
    assert config_rules.reserved_ports(str(tmp_path)) == ((50000, 50000), (50005, 50010))
    (folder / "ip_local_reserved_ports").write_text("\n")
    (folder / "ip_local_port_range").write_text("?\n")
    assert config_rules.reserved_ports(str(tmp_path)) == ()
    assert config_rules.ephemeral_range(str(tmp_path)) is None


def test_port_range_of_this_kernel() -> None:
    low, high = config_rules.ephemeral_range() or (0, 0)
    assert 0 < low < high < 65536
