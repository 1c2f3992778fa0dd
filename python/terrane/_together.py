# SPDX-License-Identifier: Apache-2.0
"""How a loader stays with the other jobs of its data set (src/jobs/together.h): it asks the registry in which window an epoch
begins, and waits a little before it gets two windows ahead of another job."""
import logging
import time

from . import _errors, _job

PATIENCE = 0.05   # of the time of the last window: the longest wait for others
SHORT_S = 0.5     # windows that are read faster than this need no cache that two jobs share
AGAIN_S = 30      # after a request that failed
TIMEOUT_S = 2.0   # of a request in the middle of an epoch
RETRY_S, SAY_S = 1, 60  # of the ranks of a job that must agree
_log = logging.getLogger("terrane")


class Together:
    """Asks the registry on behalf of a loader. With one rank a registry that does not answer, or refuses, changes nothing: the
    job begins where it would by itself. Several ranks must begin in the same window, so they ask until they know."""

    def __init__(self, loader):
        source = loader.dataset
        self._cluster, self._spec = loader._cluster(), loader._spec()
        self._set = source.fingerprint << 32 | len(source) & 0xffffffff
        self._rank, self._alone, self._patience = loader.rank, loader.world == 1, loader._patience
        self._added = self._failed = False
        self._not_before = 0.0          # no request before this time
        self._at = None                 # (epoch, window) that it is in
        self._entered = self._waited = 0.0

    def _ask(self, epoch, windows, window, begins, force, timeout):
        """(window, whether to wait)"""
        handle, job, options = self._cluster._handle, self._spec["id"], {"timeout": timeout}
        for last in (False, True):
            try:
                if not self._added:
                    _job.add(handle, self._spec, options)
                    self._added = True
                entered, wait = handle.job_enter(job, self._set, epoch, windows, window, begins, force, options)
                return entered, bool(wait)
            except (_errors.NotFound, _errors.Stale):
                self._added = False  # it was removed, or has ended: it is added again
                if last:
                    raise

    def _say(self, error):
        self._not_before = time.monotonic() + AGAIN_S
        if not self._failed:
            _log.warning("job %d begins and goes on by itself: %s", self._spec["id"], error)
        self._failed = True

    def join(self, epoch, windows, own, stopping):
        """The window in which an epoch begins, for a job that would begin in `own`."""
        began = said = None
        while True:
            try:
                window, wait = self._ask(epoch, windows, own, True, False, _job.TIMEOUT_S)
                self._failed = False
                if not wait:
                    self._enter((epoch, window))
                return window
            except (OSError, ValueError) as error:
                if self._alone:
                    self._say(error)
                    return own
                now = time.monotonic()
                began = now if began is None else began
                retry = isinstance(error, (_errors.Unreachable, _errors.TimedOut, _errors.Busy, _errors.Exists))
                if not retry or stopping.is_set() or now - began >= self._patience:
                    raise RuntimeError(f"the ranks of job {self._spec['id']} cannot agree on the window in which epoch {epoch} "
                                       f"begins: {error}. Choose another job, or give all ranks the same first_window") from error
                if said is None or now - said >= SAY_S:
                    said = now
                    _log.warning("the registry does not say where epoch %d of job %d begins: %s. Trying again for %.0f s", epoch,
                                 self._spec["id"], error, self._patience - (now - began))
            stopping.wait(RETRY_S)

    def _enter(self, at):
        self._at, self._entered, self._waited = at, time.monotonic(), 0.0

    def may_enter(self, epoch, windows, window):
        """Whether the job goes on to this window now. Ranks other than the first follow it: they take steps together."""
        if self._at == (epoch, window) or self._rank != 0:
            return True
        now = time.monotonic()
        took = now - self._entered - self._waited
        if self._at is not None and took < SHORT_S or now < self._not_before:
            self._enter((epoch, window))
            return True
        force = self._at is None or self._waited >= PATIENCE * took
        try:
            wait = self._ask(epoch, windows, window, False, force, TIMEOUT_S)[1]
            self._failed = False
        except (OSError, ValueError) as error:
            self._say(error)
            wait = False
        if not wait:
            self._enter((epoch, window))
        return not wait

    def wait(self, stopping):
        """Waits a while, because may_enter said no and nothing is left to do."""
        began = time.monotonic()
        stopping.wait(max(PATIENCE / 8 * (began - self._entered), 0.005))
        self._waited += time.monotonic() - began
