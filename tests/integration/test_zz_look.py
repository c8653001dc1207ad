from __future__ import annotations

import pytest

pytestmark = [pytest.mark.integration]


def test_look(make_site):
    site = make_site()
    print(site.play("deploy").ok().out)
    print("=====AGAIN")
    print(site.play("deploy").ok().out)
    print("=====RESTART")
    print(site.play("restart", pd_group="g").ok().out)
    print("=====REMOVE")
    print(site.play("remove", pd_group="g").ok().out)
