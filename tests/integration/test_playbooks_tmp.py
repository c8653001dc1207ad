from __future__ import annotations

from integration.conftest import *


def test_x(site):
    import time
    for a in (("validate",),("deploy","--check","--diff"),("deploy",),("deploy",),("status",)):
        t0=time.time(); r=site.play(*a); print("=====",a,round(time.time()-t0,1)); print(r.out)
