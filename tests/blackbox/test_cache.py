# SPDX-License-Identifier: Apache-2.0
"""Cache nodes as processes: a second job is served from flash, kill -9, restart, rot, removed files, tokens, status."""
import json

from box import KIB, MIB, Box, await_true, run, some_bytes

SIZE, SEGMENT = 24 * MIB, 256 * KIB
SHAPE = ("--nodes", 3, "--disks", 1, "--encoding", "r2", "--cache-nodes", 1, "--cache-flash", "64MiB", "--procs")
NODE = "cache-4"  # behind three storage nodes


def patient(box):
    """Lets clients wait for busy cache nodes, so that the tests do not depend on an idle machine."""
    path = box.folder / "cluster.ini"
    path.write_text(path.read_text() + "[cache]\ntimeout = 20s\npause = 1s\n")


def disk_bytes(box):
    """Bytes that the disks of all nodes have read and written."""
    return sum(v for i in (1, 2, 3) for k, v in box.metrics(f"node-{i}").items()
               if k.startswith("terrane_disk_bytes_total"))


def get(box, tmp_path, name="f"):
    box("get", "-q", f"/{name}", tmp_path / "out")
    same = (tmp_path / "out").read_bytes() == (tmp_path / name).read_bytes()
    (tmp_path / "out").unlink()
    assert same


def put(box, tmp_path, name="f", seed=3, size=SIZE):
    (tmp_path / name).write_bytes(some_bytes(seed, size))
    box("put", "-q", tmp_path / name, f"/{name}")


def cache(box):
    """The status of the only cache node."""
    nodes = box.json("cache", "status")
    assert len(nodes) == 1 and "error" not in nodes[0], nodes
    return nodes[0]


def until_served(box, tmp_path, what="reads from the cache node"):
    """Reads until a read gets all its bytes from the cache node."""
    def attempt():
        before = box.metrics(NODE)["terrane_cache_answers_data_total"]
        misses = box.metrics(NODE)["terrane_cache_answers_not_here_total"]
        get(box, tmp_path)
        now = box.metrics(NODE)
        return now["terrane_cache_answers_data_total"] - before >= SIZE / (4 * MIB) and \
            now["terrane_cache_answers_not_here_total"] == misses
    await_true(what, attempt)


def rot(path):
    """Flips a bit in every segment, and in no footer (src/cache/region.h)."""
    data = bytearray(path.read_bytes())
    for region in range(4096, len(data) - 8 * SEGMENT, 8 * SEGMENT + 4096):
        for segment in range(8):
            data[region + segment * SEGMENT + 777] ^= 8
    path.write_bytes(data)


def test_a_second_job_reads_no_disk_and_survives_kill_9_rot_and_restart(tmp_path):
    with Box(tmp_path / "box", *SHAPE) as box:
        patient(box)
        put(box, tmp_path)
        until_served(box, tmp_path)
        before = disk_bytes(box)
        get(box, tmp_path)
        assert disk_bytes(box) == before
        status = cache(box)
        assert status["fetched_bytes"] >= SIZE and status["hits"] > 0 and status["shadow_wrong"] == 0
        assert status["written_bytes"] > 0 and status["refused_tokens"] == 0
        # Most of the file has left the DRAM; after kill -9 it is found on flash again.
        box.kill(NODE)
        get(box, tmp_path)
        box.up("--procs")
        until_served(box, tmp_path)
        assert cache(box)["restored"] > 0
        box.down()
        rot(box.folder / "cache" / NODE)
        box.up("--procs")
        until_served(box, tmp_path)
        assert cache(box)["rotten"] > 0
        box("rm", "/f")
        put(box, tmp_path, seed=4)
        until_served(box, tmp_path)


def test_reads_are_right_while_a_cache_node_is_killed_and_comes_back(tmp_path):
    with Box(tmp_path / "box", *SHAPE, "--threads", 2) as box:
        patient(box)
        put(box, tmp_path)
        reads = [box.start("get", "-q", "/f", tmp_path / f"out{i}") for i in range(4)]
        await_true("a fetch", lambda: box.metrics(NODE)["terrane_cache_gets_total"] > 0)
        box.kill(NODE)
        for i, read in enumerate(reads):
            assert read.wait(120) == 0, read.stderr.read()
            assert (tmp_path / f"out{i}").read_bytes() == (tmp_path / "f").read_bytes()
        get(box, tmp_path)
        box.up("--procs")
        until_served(box, tmp_path, "reads from the cache node that came back")


def test_status_says_why_data_is_admitted_or_not_and_parameters_change(tmp_path):
    with Box(tmp_path / "box", *SHAPE) as box:
        patient(box)
        text = box("cache", "status").stdout
        assert NODE in text and "policy terrane" in text
        conf = box.folder / "conf" / f"{NODE}.ini"
        conf.write_text(conf.read_text() + "[control]\npolicy = historic\nrefresh = 200ms\nmin_threshold = 1000\n")
        box.kill(NODE)
        box.up("--procs")
        put(box, tmp_path)
        get(box, tmp_path)
        bucket = cache(box)["buckets"][0]
        assert bucket["refused_bytes"] == SIZE and bucket["hit_bytes"] == 0
        assert "not above the minimum threshold 1000" in bucket["why"]
        assert cache(box)["jobs"][0]["requested_bytes"] == SIZE
        box("cache", "set", "all", "min_threshold", "0")
        until_served(box, tmp_path, "reads from the cache node after a lower threshold")
        assert cache(box)["min_threshold"] == 0
        assert "admitted: priority" in cache(box)["buckets"][0]["why"]
        box("cache", "set", NODE, "shadow", "1")
        def compared():
            get(box, tmp_path)
            return cache(box)["shadowed"] > 0
        await_true("comparisons with the disks", compared)
        assert cache(box)["shadow_wrong"] == 0
        done = box("cache", "set", NODE, "speed", "1", ok=False)
        assert done.returncode == 1 and "the parameters are" in done.stderr
        assert box("cache", "set", "cache-9", "shadow", "1", ok=False).returncode == 1
        assert box("cache", "set", NODE, "shadow", "much", ok=False).returncode == 2


def test_registered_jobs_decide_what_is_admitted_and_status_says_so(tmp_path):
    with Box(tmp_path / "box", *SHAPE) as box:
        patient(box)
        conf = box.folder / "conf" / f"{NODE}.ini"
        conf.write_text(conf.read_text() + "[control]\npolicy = future\nrefresh = 200ms\nmin_threshold = 1.1\n")
        box.kill(NODE)
        box.up("--procs")
        box("mkdir", "/set")
        (tmp_path / "f").write_bytes(some_bytes(3, SIZE))
        box("put", "-q", tmp_path / "f", "/set/f")
        jobs = lambda: {j["job"]: j for j in cache(box)["jobs"]}
        read = lambda job: box("get", "-q", "-F", "-i", job, "/set/f", tmp_path / "out")
        read(1)
        assert not jobs()[1]["registered"] and cache(box)["fetched_bytes"] == 0
        for job in (1, 2):
            box("job", "add", job, "/set", "--epochs", "1", "--shuffle", "scan", "--lease", "1h")
        await_true("both jobs at the node", lambda: cache(box)["registered_jobs"] == 2)
        assert jobs()[2]["why"].startswith("registered with 1 directory")
        # One job of the bucket is not above the threshold; when both read it, it is admitted.
        read(1)
        assert cache(box)["fetched_bytes"] == 0
        def admitted():
            read(2)
            return cache(box)["fetched_bytes"] >= SIZE
        await_true("a fetch for two jobs", admitted)
        bucket = max(cache(box)["buckets"], key=lambda b: b["requested_bytes"])
        assert bucket["readers"] == 2 and "admitted: priority 2.00" in bucket["why"], bucket
        assert jobs()[1]["reading"] and jobs()[1]["placed"] and jobs()[1]["ordered"]
        assert jobs()[1]["done_share"] > 0.9 and "a scan" in box("cache", "status").stdout
        box("job", "done", 2)
        await_true("one job at the node", lambda: cache(box)["registered_jobs"] == 1)
        assert not jobs()[2]["registered"]


def test_the_manager_gives_flash_to_the_job_that_waits(tmp_path):
    with Box(tmp_path / "box", *SHAPE) as box:
        box("mkdir", "-p", "/sets/a", "/sets/b")
        put(box, tmp_path, "f", 3, SIZE)
        for job, path in ((1, "/sets/a"), (2, "/sets/b")):
            box("job", "add", job, path, "--accelerators", 8, "--lease", "1h", "--name", f"net{job}")
        assert box.json("job", "show", 1)["flash"] is None and " -" in box("job", "top").stdout
        for step in (1, 2):
            box("job", "progress", 1, "--total", 10, "--part-bytes", "24MiB", "--steps", 100 * step, "--compute", f"{10 * step}s",
                "--wait", f"{20 * step}s")  # a step takes three times as long as it computes
            box("job", "progress", 2, "--total", 10, "--part-bytes", "24MiB", "--steps", 100 * step, "--compute", f"{10 * step}s")
        flash = lambda job: box.json("job", "show", job)["flash"] or {}
        await_true("flash for the first job", lambda: flash(1).get("keep") == "all")
        assert flash(1)["bytes"] == 24 * MIB and 5.3 < flash(1)["saved"] < 5.7
        assert abs(flash(1)["miss_s"] - 0.3) < 1e-6 and abs(flash(1)["hit_s"] - 0.1) < 1e-6
        await_true("a probe of the second", lambda: flash(2).get("probed"))  # it does not wait: with a cache, or without, too?
        top = box("job", "top").stdout
        assert "all, 24.0 MiB: saves most for this size; frees 5.5 accelerators" in top, top
        assert "its steps are timed without a cache" in top


def test_clients_may_leave_cache_nodes_alone(tmp_path):
    with Box(tmp_path / "box", *SHAPE) as box:
        path = box.folder / "cluster.ini"
        path.write_text(path.read_text() + "[cache]\nuse = false\n")
        put(box, tmp_path)
        get(box, tmp_path)
        assert box.metrics(NODE)["terrane_cache_gets_total"] == 0
        path.write_text(path.read_text().replace("use = false", "classes = platinum"))
        done = box("ls", "/", ok=False)
        assert done.returncode != 0 and '"platinum" is not allowed here' in done.stderr


def test_wrong_settings_are_refused_with_the_reason(tmp_path):
    for words, reason in ((("--cache-flash", "1GiB"), "--cache-flash needs --cache-nodes"),
                          (("--cache-nodes", 1, "--cache-flash", "1MiB"), "needs 16 MiB"),
                          (("--cache-nodes", 51), "a number from 1 to 50")):
        done = run("up", "--dir", tmp_path / "odd", *words)
        assert done.returncode == 2 and reason in done.stderr, done.stderr
    base = {"cluster": "0" * 32, "id": "9", "metadata": "127.0.0.1:1", "path": tmp_path / "flash", "flash": "64MiB"}
    for control, reason in (("policy = belady", "must be one of"), ("min_threshold = low", "from 0 to a million"),
                            ("shadow = 2", "from 0 to 1")):
        conf = tmp_path / "cache.ini"
        conf.write_text("[cache]\n" + "".join(f"{k} = {v}\n" for k, v in base.items()) + f"[control]\n{control}\n")
        done = run("cache", "--config", conf)
        assert done.returncode == 1 and reason in done.stderr, done.stderr
    (tmp_path / "flash").write_bytes(b"precious" * 1000)
    conf.write_text("[cache]\nlisten = 127.0.0.1:0\n" + "".join(f"{k} = {v}\n" for k, v in base.items()))
    done = run("cache", "--config", conf)
    assert done.returncode == 1 and "holds something that is no cache" in done.stderr
    assert (tmp_path / "flash").read_bytes()[:8] == b"precious"


def test_the_settings_are_documented():
    shown = run("config", "show", "cache").stdout
    assert "write_limit" in shown and "[control]" in shown
    assert json.loads(run("config", "show", "cache", "--json").stdout)
