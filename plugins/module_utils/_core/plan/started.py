# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A member that runs on an older configuration, as a plan shows it: what it was started with, not what the spec would make of it by now.

Its label says how it is reached and stopped, the group's record what its role was rendered to. The spec may name another mode meanwhile,
whose ports the member does not have."""

from __future__ import annotations

import typing as t

from ..base.errors import PdError
from ..base.placeholders import fill
from ..base.plain import Plain
from ..facts.applied import Rendered
from ..facts.observed import Host, LiveMember
from ..facts.record import Record
from ..work.member import Listener, Member, Part, Probe, Stop
from .member import values_of
from .placement import Seat

# A text, or what a spec writes in place of one (a mount with its options).
Text = t.TypeVar("Text")


def as_started(member: LiveMember, host: Host, seat: Seat, record: Record, shared: Plain) -> Member:
    """The member in the shape that member.py gives those of the spec. `record` is the group's, `shared` are values of the whole group. What
    the record does not say (it is of an older release) stays empty."""
    label = member.label
    role = record.rendered.get(member.role, Rendered())
    values = {**shared, **values_of(member.id, member.index, host, seat)}

    part = Part(
        host=member.host,
        rank=0,
        gpus=tuple(seat.gpus),
        port=seat.port,
        ports=seat.ports,
        image=role.image,
        pull="missing",
        vendor=None,
        model=label.source.get("model"),
        executable=label.source.get("executable") or "",
        argv=_all_filled(role.argv, values),
        mounts=_all_filled(role.mounts, values),
        devices=_all_filled(role.devices, values),
        env={name: _filled(text, values) for name, text in role.env.items()},
        secrets=role.secrets,
        files=tuple({k: _filled(v, values) for k, v in file.items()} for file in role.files),
        limits=role.resources,
        labels=label.plain,
        through=host.through,
    )
    return Member(
        id=member.id,
        role=member.role,
        index=member.index,
        revision=member.revision,
        address=label.address,
        kv_address=label.kv_address if member.role != "router" else None,
        url=label.url,
        parts=(part,),
        probe=Probe(
            url=label.url,
            health=label.health,
            listening=(Listener("http", seat.port),),
            backend=label.backend,
            limit=120,
            busy=label.busy,
            held=label.held,
            metrics=label.metrics,
        ),
        stop=Stop(label.grace, label.drain),
        restart={"attempts": label.attempts},
        identity=label.identity,
    )


def _all_filled(texts: t.Iterable[Text], values: Plain) -> tuple[Text, ...]:
    return tuple(_filled(text, values) for text in texts)


def _filled(text: Text, values: Plain) -> Text:
    """A recorded text with its placeholders filled in; one that has no value any more stays."""
    try:
        return t.cast("Text", fill(text, values, partial=True)) if isinstance(text, str) else text
    except PdError:
        return text
