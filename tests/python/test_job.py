# SPDX-License-Identifier: Apache-2.0
"""A loader in the registry of jobs: what it registers and reports, and that its training never depends on it."""
import gc
import logging
import os

import pytest
import terrane
from box import await_true

TOTAL = 3000


@pytest.fixture(scope="module")
def data(cluster):
    path = f"/sets/job-{os.getpid()}"
    terrane.build(({"__key__": f"{i:05}", "txt": b"x%d" % i} for i in range(TOTAL)), path, cluster=cluster)
    return terrane.Dataset(path, cluster=cluster, job_id=4711)


def show(box, job):
    return box.json("job", "show", job)


def test_a_loader_registers_reports_and_ends_its_job(box, data):
    loader = terrane.Loader(data, 100, seed=6, job=4711, job_name="birds", epochs=2, window_share=0.4)
    assert sum(1 for _ in loader) == 30
    await_true("the job is there", lambda: any(job["id"] == 4711 for job in box.json("job", "list", "--active")))
    job = show(box, 4711)
    assert (job["name"], job["order"], job["seed"], job["epochs"], job["accelerators"]) == ("birds", "window", 6, 2, 1)
    assert [part["path"] for part in job["parts"]] == [data.path]
    assert sum(1 for _ in loader) == 30  # another epoch of the same job
    loader.close()
    job = show(box, 4711)
    assert job["status"] == "done" and job["progress"]["steps"] == 60 and job["progress"]["total"] == TOTAL
    assert job["progress"]["bytes"] > 0 and job["progress"]["windows"] == 2  # three stripes of 1,024 samples
    assert job["progress"]["compute_us"] + job["progress"]["wait_us"] > 0
    box("job", "rm", 4711)


def test_a_job_ends_with_its_loader(box, data):
    loader = terrane.Loader(data, 100, order="free", job=4712)
    next(iter(loader))
    await_true("the job is there", lambda: any(job["id"] == 4712 for job in box.json("job", "list", "--active")))
    assert show(box, 4712)["order"] == "free"
    reporter = loader._reporter
    del loader
    gc.collect()
    reporter.report()  # what happens by itself a few seconds later
    await_true("the job ends", lambda: show(box, 4712)["status"] == "done")
    box("job", "rm", 4712)


def test_a_training_goes_on_when_its_job_is_refused(box, data, caplog):
    box("job", "add", 4713, data.path, "--lease", "1h")  # another job has the number
    with caplog.at_level(logging.WARNING, "terrane"):
        loader = terrane.Loader(data, 100, job=4713)
        assert sum(len(batch) for batch in loader) == TOTAL
        loader.close()
    said = sorted(record.getMessage() for record in caplog.records if "4713" in record.getMessage())
    assert len(said) == 2 and "begins and goes on by itself" in said[0] and "is not in the registry" in said[1]
    assert show(box, 4713)["progress"]["steps"] == 0 and show(box, 4713)["status"] == "active"
    box("job", "rm", 4713)
    ranks = terrane.Loader(data, 100, rank=1, world=2, job=4713)  # rank 0 alone reports
    list(ranks)
    assert ranks._reporter is None
    box("job", "rm", 4713)
    with pytest.raises(ValueError, match="job"):
        terrane.Loader(data, 100, job=-1)
