# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

SHELL := /bin/bash
.DEFAULT_GOAL := help
gate := tests/gate/run.sh
venv := .venv/.ready
path := PATH="$(CURDIR)/.venv/bin:$$PATH"

.PHONY: help setup demo test test-full lint sanity unit units integration molecule bench bench-quick docs build clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 14

setup: $(venv) ## make .venv with the pinned tools, and let Ansible find this checkout as hpc.fabric

$(venv): requirements.txt requirements-dev.txt tests/gate/setup.sh
	@PYTHON="$(PYTHON)" tests/gate/setup.sh

demo: $(venv) ## an IMEX domain on this machine, rolled out, broken and mended
	@$(path) tests/demo/run

test: $(venv) ## everything, on Python 3.9 to 3.13 and on hosts with their own systemd (as CI does)
	@$(gate)

test-full: $(venv) ## as test, and with every supported ansible-core and with newer hosts
	@$(gate) --full

lint: $(venv) ## format, ruff, yamllint, shellcheck, mypy, ansible-lint, documentation, changelog
	@$(gate) format ruff yamllint shellcheck mypy ansible-lint docs-lint changelog

sanity: $(venv) ## ansible-test sanity
	@$(gate) sanity

unit: $(venv) ## unit and simulator tests on one Python, in seconds
	@$(gate) pytest

units: $(venv) ## unit tests with ansible-test, on every Python from 3.9 on that is here
	@$(gate) units

integration: $(venv) ## modules and roles run by Ansible, on this machine
	@$(gate) integration

molecule: $(venv) ## scenarios on hosts with their own systemd, network and disk (root)
	@$(gate) molecule

bench: $(venv) ## all benches, at most an hour
	@$(path) tests/bench/run

bench-quick: $(venv) ## the benches in minutes
	@$(path) tests/bench/run --quick

docs: $(venv) ## documentation of plugins and roles as HTML, in .cache/docs
	@$(gate) docs

build: $(venv) ## the collection's artefact, in dist/
	@$(gate) build

clean: ## remove what the targets above made (not the root file system of the test bed)
	rm -rf .venv .collections .cache dist tests/output .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
