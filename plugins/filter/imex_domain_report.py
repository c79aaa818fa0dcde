# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter imex_domain_report: what every host says of IMEX to one report a domain."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpc.fabric.plugins.plugin_utils.imex import domain_report, facts, records


def imex_domain_report(
    results: t.Any, domains: t.Mapping[str, str] | None = None, max_age: float | None = None
) -> list[dict[str, t.Any]]:
    """One report a domain, sorted by name. results: the result of imex_status by inventory name; max_age: seconds."""
    if not isinstance(results, t.Mapping):
        raise AnsibleFilterError(
            "imex_domain_report: expected a dictionary of host name to the registered result of hpc.fabric.imex_status, "
            f"got {type(results).__name__}."
        )
    if domains is not None and not isinstance(domains, t.Mapping):
        raise AnsibleFilterError("imex_domain_report: domains must be a dictionary of host name to domain name.")
    if max_age is not None and (isinstance(max_age, bool) or not isinstance(max_age, (int, float)) or max_age < 0):
        raise AnsibleFilterError(f"imex_domain_report: max_age is {max_age!r}, expected seconds, 0 or more.")
    found = [facts.facts(str(host), result) for host, result in results.items()]
    names = None if domains is None else {str(host): str(name) for host, name in domains.items()}
    return [records.plain(report) for report in domain_report.reports(found, names, max_age)]


class FilterModule:
    """What Ansible asks for."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"imex_domain_report": imex_domain_report}
