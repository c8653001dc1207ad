# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator of AWX meets, on a real one: job templates, approvals, a cancel, a schedule, slices, and who may do what."""

from __future__ import annotations

import datetime
import json
import re
import typing as t
from pathlib import Path

import pytest
from awx.client import Client, Object, RefusedError
from awx.conftest import TOKEN, Lab
from awx.project import SECRET
from integration.support_runtime import wait_for

pytestmark = [pytest.mark.awx, pytest.mark.timeout(1500)]


def said(client: Client, job: Object) -> str:
    """What a job printed, on one line: AWX's lines are broken by nobody, ours by Ansible."""
    return " ".join(client.stdout(job).split())


def ended(client: Client, job: Object | None, status: str) -> Object:
    """The job, which has that status."""
    assert job is not None, "there is no such job"
    assert job["status"] == status, client.stdout(job)[-6000:]
    return job


class Change:
    """A run of the workflow "change", up to where somebody is asked."""

    def __init__(self, lab: Lab, group: str) -> None:
        self.lab, self.client = lab, lab.admin
        self.workflow = self.client.launch("pd change", "workflow_job_templates", extra_vars={"pd_group": group})
        self.asked = wait_for(self._asked, 300, "somebody is asked to approve")

    def _asked(self) -> Object | None:
        now = self.client.get(self.workflow["url"])
        assert now["status"] in ("new", "pending", "waiting", "running"), f"nobody was asked: {self.told()}"
        for node in self.client.all(self.workflow["related"]["workflow_nodes"]):
            job = node["summary_fields"].get("job", {})
            if job.get("type") == "workflow_approval" and job["status"] == "pending":
                return self.client.get(f"/api/v2/workflow_approvals/{job['id']}/")
        return None

    def told(self) -> str:
        nodes = self.client.nodes(self.workflow)
        return "\n".join(self.client.stdout(node["job"])[-3000:] for node in nodes if node["job"])

    def answer(self, what: str) -> Object:
        """The workflow, over; what is `approve` or `deny`."""
        self.client.call("POST", f"{self.asked['url']}{what}/")
        return self.client.wait(self.workflow)

    def job(self, node: str) -> Object | None:
        """The job of a node, by its identifier; None where it did not come to it."""
        (found,) = (each for each in self.client.nodes(self.workflow) if each["identifier"] == node)
        return t.cast("Object | None", found["job"])


def test_a_second_run_of_the_objects_changes_nothing_but_what_awx_cannot_tell(lab: Lab) -> None:
    assert "item=workflow job template pd change" in lab.first.ok().out
    again = lab.objects().ok()
    assert re.findall(r"^changed: .*item=(.*)\)$", again.out, re.M) == ["credential pd secrets"]
    assert "credential pd secrets: its secrets are written again" in again.out
    assert TOKEN not in lab.first.out + again.out
    without = {"awx_secrets": [{"variable": SECRET, "label": "Hugging Face token"}]}
    checked = lab.objects("--check", "--diff", "-e", json.dumps(without)).ok()
    assert checked.changed == 0, checked.out[-6000:]


def test_what_was_approved_is_applied(lab: Lab) -> None:
    change = Change(lab, "approved")
    plan = ended(lab.admin, change.job("plan"), "successful")
    assert plan["job_type"] == "check"
    digest = plan["artifacts"]["pd_plan_digest"]
    assert f"-e pd_plan_digest={digest}" in said(lab.admin, plan)
    assert plan["artifacts"]["pd_plan_summary"]["workloads"]["approved"]["created"] == 3
    assert lab.fleet.members("approved") == {}

    ended(lab.admin, change.answer("approve"), "successful")
    applied = ended(lab.admin, change.job("apply"), "successful")
    assert f"This is the plan that was approved: {digest}" in said(lab.admin, applied)
    assert applied["artifacts"]["pd_plan_digest"] == "any"
    assert "approved: RUNNING" in said(lab.admin, ended(lab.admin, change.job("running"), "successful"))
    members = lab.fleet.members("approved")
    assert set(members) == {"approved-prefill-0", "approved-decode-0", "approved-router-0"}
    assert lab.fleet.serves("approved")
    # The secret that AWX keeps has come to the engine, and nowhere else.
    environment = Path(f"/proc/{members['approved-prefill-0']}/environ").read_bytes().split(b"\0")
    assert f"HF_TOKEN={TOKEN}".encode() in environment
    for job in (plan, applied):
        assert TOKEN not in lab.admin.stdout(job) + json.dumps(job)


def test_a_group_that_has_changed_meanwhile_is_left_as_it_is(lab: Lab) -> None:
    change = Change(lab, "meanwhile")
    before = lab.deployed("meanwhile")
    ended(lab.admin, change.answer("approve"), "failed")
    refused = said(lab.admin, ended(lab.admin, change.job("apply"), "failed"))
    assert "ERROR plan-not-approved: Approved was the plan" in refused
    assert "meanwhile changed. Nothing was done, and nothing locked" in refused
    assert "meanwhile: RUNNING" in said(lab.admin, ended(lab.admin, change.job("state"), "successful"))
    assert lab.fleet.members("meanwhile") == before
    assert lab.fleet.locks("meanwhile") == []
    assert lab.fleet.serves("meanwhile")


def test_what_was_denied_is_not_done(lab: Lab) -> None:
    change = Change(lab, "denied")
    ended(lab.admin, change.answer("deny"), "failed")
    assert change.job("apply") is None
    assert "denied: PENDING (no member is running yet)" in said(
        lab.admin, ended(lab.admin, change.job("state"), "successful")
    )
    assert "The plan was denied" in said(lab.admin, ended(lab.admin, change.job("not-changed"), "failed"))
    assert lab.fleet.members("denied") == {}
    assert not any((state / "groups").exists() for state in lab.fleet.of("denied"))


def test_after_a_cancel_in_mid_deploy_the_next_job_goes_on(lab: Lab) -> None:
    slow = {"pd_group": "canceled"}
    job = lab.admin.launch("pd deploy", extra_vars=slow)
    started = wait_for(lambda: lab.fleet.members("canceled"), 120, "a member has started")
    lab.admin.call("POST", job["related"]["cancel"])
    ended(lab.admin, lab.admin.wait(job), "canceled")
    assert not lab.fleet.serves("canceled"), "the cancel came too late for this test to tell anything"

    ended(lab.admin, lab.admin.run("pd deploy", extra_vars=slow), "successful")
    after = lab.fleet.members("canceled")
    assert set(after) == {"canceled-prefill-0", "canceled-decode-0", "canceled-router-0"}
    assert started.items() <= after.items(), "what had started is taken up, not started anew"
    assert lab.fleet.locks("canceled") == []
    assert lab.fleet.serves("canceled")


def test_the_schedule_runs_its_job(lab: Lab) -> None:
    """By AWX's own scheduler: the schedule is only brought forward."""
    lab.deployed("scheduled")
    schedule = next(each for each in lab.admin.all("/api/v2/schedules/") if each["name"].startswith("pd status"))
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=5)
    rule = f"DTSTART:{soon:%Y%m%dT%H%M%SZ} RRULE:FREQ=DAILY;INTERVAL=1"
    jobs = f"/api/v2/jobs/?schedule={schedule['id']}&order_by=-id"
    known = {job["id"] for job in lab.admin.all(jobs)}
    lab.admin.call("PATCH", schedule["url"], {"rrule": rule, "enabled": True})
    try:
        (job,) = wait_for(lambda: [j for j in lab.admin.all(jobs) if j["id"] not in known], 120, "the schedule's job")
        job = lab.admin.wait(job)
    finally:
        lab.admin.call("PATCH", schedule["url"], {"rrule": schedule["rrule"], "enabled": schedule["enabled"]})
    assert job["launch_type"] == "scheduled"
    out = said(lab.admin, job)
    assert "scheduled: RUNNING" in out
    # Of others that do not run, or not yet, it fails: whoever has notifications on the template is told.
    others = re.findall(r"\b(?:approved|meanwhile|denied|canceled|sliced|operated): (?!RUNNING)[A-Z]+", out)
    assert job["status"] == ("failed" if others else "successful"), out[-3000:]


def test_a_sliced_template_is_refused(lab: Lab) -> None:
    template = lab.admin.find("job_templates", "pd deploy")
    made = lab.admin.call("POST", f"{template['url']}copy/", {"name": "pd deploy in slices"})
    try:
        lab.admin.call("PATCH", made["url"], {"job_slice_count": 2})
        sliced = lab.admin.launch(made["name"], extra_vars={"pd_group": "sliced"})
        assert sliced["type"] == "workflow_job"
        lab.admin.wait(sliced)
        jobs = [node["job"] for node in lab.admin.nodes(sliced)]
        assert len(jobs) == 2
        for job in jobs:
            out = said(lab.admin, ended(lab.admin, job, "failed"))
            assert f"This job is one slice of '{made['name']}'" in out
            assert "Set Job slicing of the template to 1" in out
    finally:
        lab.admin.call("DELETE", made["url"])
    assert lab.fleet.members("sliced") == {}
    assert not any((state / "groups").exists() for state in lab.fleet.of("sliced"))


def test_an_operator_may_scale_and_not_restart(lab: Lab) -> None:
    before = lab.deployed("operated")
    operator = lab.operator()
    for kind, name in (
        ("job_templates", "pd restart"),
        ("job_templates", "pd deploy"),
        ("workflow_job_templates", "pd change"),
    ):
        # By the address that somebody else knows: the operator is not even shown them.
        assert name not in [each["name"] for each in operator.all(f"/api/v2/{kind}/")]
        with pytest.raises(RefusedError) as told:
            operator.call(
                "POST", lab.admin.find(kind, name)["related"]["launch"], {"extra_vars": {"pd_group": "operated"}}
            )
        assert told.value.status == 403
    assert lab.fleet.members("operated") == before
    job = operator.run("pd scale", extra_vars={"pd_group": "operated", "pd_decode": 2})
    ended(operator, job, "successful")
    after = lab.fleet.members("operated")
    assert set(after) - set(before) == {"operated-decode-1"}
    assert before.items() <= after.items()
    assert lab.fleet.serves("operated")
