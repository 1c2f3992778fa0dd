# SPDX-License-Identifier: Apache-2.0
"""What a loader reports to the registry of jobs: progress, and how long steps compute and wait."""
import logging
import threading
import time
import weakref

LEASE_S, REPORT_S = 60, 10
TIMEOUT_S = 5.0  # of a request: reports are never worth a wait of the training
_log = logging.getLogger("terrane")


def add(handle, job, options):
    """Adds a job to the registry, or renews its lease."""
    handle.job_add(job["id"], job["name"], job["paths"], job["order"], job["shuffle"], job["seed"], job["epochs"],
                   job["accelerators"], LEASE_S * 1000, options)


class Reporter:
    """Registers a job, reports on it in the background until it is closed or its loader is gone, and ends it then. Errors are
    logged once, and never reach the training. progress is a method of the loader."""

    def __init__(self, cluster, job, progress):
        self._handle, self._job, self._progress = cluster._handle, job, weakref.WeakMethod(progress)
        self._options = {"timeout": TIMEOUT_S}
        self._added = self._failed = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="terrane-job", daemon=True)
        self._thread.start()

    def _try(self, call):
        try:
            call()
        except (OSError, ValueError) as error:
            if not self._failed:
                _log.warning("job %d is not in the registry: %s", self._job["id"], error)
            self._failed, self._added = True, False
            return False
        self._failed = False
        return True

    def _add(self):
        add(self._handle, self._job, self._options)

    def report(self):
        """Reports now; adds the job first if the registry does not have it."""
        progress = self._progress()
        if progress is None:
            self._stop.set()
            return
        numbers = progress()
        del progress  # it holds the loader
        if not self._added:
            self._added = self._try(self._add)
        if self._added:
            self._try(lambda: self._handle.job_report(self._job["id"], time.time_ns() // 1000, *numbers, self._options))

    def _run(self):
        self.report()
        while not self._stop.wait(REPORT_S):
            self.report()
        self.report()
        if self._added:
            self._try(lambda: self._handle.job_end(self._job["id"], self._options))

    def close(self):
        """Reports once more, and ends the job."""
        self._stop.set()
        self._thread.join()
