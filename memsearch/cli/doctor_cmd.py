"""``doctor``: what memsearch stands on, agent by agent."""

from __future__ import annotations

import os
from typing import Any

import click

from memsearch.cli import output
from memsearch.config.paths import Home

#: How a state is shown.
_MARKS = {"ok": "ok  ", "note": "-   ", "fault": "FAIL"}


@click.command()
@click.option("--fix", is_flag=True, help="Close what of the home is open to other users.")
@click.option("--json", "-j", "as_json", is_flag=True, help="Print JSON.")
def doctor(fix: bool, as_json: bool) -> None:
    """Say what is set up and what is not, and what to do about it.

    Looks at the home, the disk, the index, the model, the worker, and at each agent: whether
    it is there, whether memsearch is installed in it and trusted, when it was last captured.

    \b
    Examples:
      memsearch doctor
      memsearch doctor --fix

    Exit codes: 0 when there is no fault, 1 when there is one.
    """
    with output.reported():
        from memsearch.doctor import close_home, examine
        from memsearch.hooks.install.place import Place

        if fix:
            for path in close_home(Home.from_env(os.environ)):
                output.note(f"closed to others: {path}")
        found = examine(Place(Home.from_env(os.environ), dict(os.environ)))
    if as_json:
        output.put_json(found)
    else:
        for line in lines(found):
            output.put(line)
    if not found["ok"]:
        raise SystemExit(output.DEGRADED)


def lines(found: dict[str, Any]) -> list[str]:
    """The findings as a person reads them."""
    shown = [f"memsearch {found['version']} (Python {found['python']})"]
    for check in found["checks"]:
        shown.append(
            f"  {_MARKS[check['state']]} {check['name']}: {output.one_line(check['text'])}"
        )
        if check["next_step"]:
            shown.append(f"       → {output.one_line(check['next_step'])}")
    for name, agent in found["agents"].items():
        shown.append(f"  {_agent_mark(agent)} {name}: {_agent_text(agent)}")
        shown += [f"       ! {output.one_line(fault['text'])}" for fault in agent["faults"]]
        steps = [fault["next_step"] for fault in agent["faults"]] or [agent["next_step"]]
        shown += [f"       → {output.one_line(step)}" for step in dict.fromkeys(steps) if step]
    return shown


def _agent_mark(agent: dict[str, Any]) -> str:
    if agent["faults"]:
        return _MARKS["fault"]
    return _MARKS["ok" if agent["installed"] else "note"]


def _agent_text(agent: dict[str, Any]) -> str:
    if not agent["found"] and not agent["installed"]:
        return "not on this machine"
    parts = [agent["version"] or "its program is not on the PATH"]
    parts.append("installed" if agent["installed"] else "memsearch is not installed in it")
    if agent["trusted"] is not None:
        parts.append("trusted" if agent["trusted"] else "not trusted")
    parts.append(
        f"last turn {agent['last_capture']}" if agent["last_capture"] else "nothing captured yet"
    )
    return output.one_line(", ".join(parts))
