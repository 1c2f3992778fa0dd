# SPDX-License-Identifier: Apache-2.0
"""An emulated accelerator for PyTorch scripts, on a machine that has none.

    model, optimizer = resnet50(), ...
    device = terrane.emu.wrap(model, optimizer, precision="bf16")     # the only new line
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
    print(device.report()["utilization"])

The model computes nothing: forward, backward and optimizer.step take as long as the profile of a real device says, and
return as early as they do there; reading a result (loss.item(), .cpu(), print) waits for the device. Results are zeros of
the right shapes, learned by running the model once on two samples. Loaders, storage, losses and checkpoints are real.

A batch that the script does not move is copied to the device by forward. After wrap, and also before it once `pretend()` was
called, `tensor.cuda()`, `tensor.to("cuda")` and the same of modules mean the emulated device. With torch.distributed
initialized, processes train data parallel: gradients are reduced in buckets that overlap with backward, and no rank's
optimizer runs before all ranks have computed. Do not put the model into DistributedDataParallel.
"""
import functools
import types
import weakref

import torch

from . import _terrane

__all__ = ["Accelerator", "OutOfMemory", "pretend", "wrap"]

_PROBE = 2  # samples of the batch from which the shapes of results are learned: normalization refuses a batch of one
_current = None  # a weak reference to the accelerator that was wrapped last


class OutOfMemory(RuntimeError):
    """A batch that does not fit into the memory of the device. PyTorch raises RuntimeError, too."""


def wrap(model, optimizer=None, name="", *, device="", precision="", step_s=0.0, profiles=(), memory_bytes=0, pinned=True,
         burn=False, spin=False, vary=True, seed=1, link_bytes_s=100 << 30, latency_s=5e-6):
    """Makes model and optimizer run on an emulated accelerator, in place. Returns the `Accelerator`.

    name: of a profiled model (`terrane emu models`); without it, the one with as many bytes of parameters. step_s: seconds of a
    step, in place of a profile. profiles: CSV files of `terrane emu profile` in place of the built-in ones. memory_bytes: of
    the device; 0: the profile's. pinned: batches come from pinned memory. burn: the time in which the host launches kernels
    is spent computing, as on a real machine, and not sleeping. spin: waits end exactly, by spinning for the last part.
    vary: steps vary as the profile's do, by seed. link_bytes_s, latency_s: of the ring over which processes reduce
    gradients.

    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> device = wrap(model, optimizer, step_s=0.003)
    >>> for _ in range(3):
    ...     loss = model(torch.randn(8, 4)).sum()
    ...     loss.backward()
    ...     optimizer.step()
    >>> loss.item(), device.report()["steps"], device.report()["busy_s"]
    (0.0, 3, 0.009)
    """
    return Accelerator(model, optimizer, name=name, device=device, precision=precision, step_s=step_s, profiles=profiles,
                       memory_bytes=memory_bytes, pinned=pinned, burn=burn, spin=spin, vary=vary, seed=seed,
                       link_bytes_s=link_bytes_s, latency_s=latency_s)


class Accelerator:
    """An emulated device on which one model trains. Made by `wrap`."""

    def __init__(self, model, optimizer, *, name, device, precision, step_s, profiles, memory_bytes, pinned, burn, spin, vary,
                 seed, link_bytes_s, latency_s):
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            raise ValueError("wrap the model itself: the emulated device reduces gradients in place of DistributedDataParallel")
        if hasattr(model, "_terrane_emu"):
            raise ValueError("the model is on an emulated device already")
        numbers = {"memory_bytes": memory_bytes, "seed": seed, "link_bytes_s": link_bytes_s, "latency_s": latency_s}
        wrong = [key for key, value in numbers.items() if not 0 <= value < 1 << 63]
        if wrong:
            raise ValueError(f"{wrong[0]} = {numbers[wrong[0]]} is out of range")
        files = []
        for path in profiles:
            with open(path, "rb") as file:
                files.append((str(path), file.read()))
        self._world = torch.distributed.get_world_size() if _distributed() else 1
        self._device = _terrane.EmuDevice(
            name, device, precision, step_s, sum(p.numel() * p.element_size() for p in model.parameters()), memory_bytes,
            self._world, link_bytes_s, int(latency_s * 1e9), seed, spin, vary, tuple(files))
        self._model, self._pinned, self._burn = model, pinned, burn
        self._real, self._shapes = model.forward, {}
        self._anchor = torch.zeros((), requires_grad=True)
        self._reduced = 0
        model._terrane_emu = self
        model.forward = self._forward
        model._register_state_dict_hook(_fetch_state)
        if optimizer is not None:
            self._wrap_optimizer(optimizer)
        pretend()
        globals()["_current"] = weakref.ref(self)

    def report(self):
        """What the device did since wrap or restart(): a dict with steps, samples, elapsed_s, busy_s, utilization (busy over
        elapsed), copy_s, to_host_s, reduce_s, late_p50_s and late_p99_s (how late the process woke), spun_s, peak_bytes,
        model."""
        return self._device.report()

    def restart(self):
        """Counts from now on, for example after the first step."""
        self._device.restart()

    def synchronize(self):
        """Waits until the device has done all that was submitted."""
        self._device.wait(self._device.end(), False)

    # --- what the script calls ------------------------------------------------------------------------

    def copy_in(self, tensor, non_blocking=False):
        """Copies a tensor to the device: its bytes take their time. Returns it as a tensor of the device."""
        end, free = self._device.copy(tensor.numel() * tensor.element_size(), True, self._pinned)
        self._device.wait(free if non_blocking else max(end, free), False)
        tensor = tensor.as_subclass(DeviceTensor)
        tensor._ready, tensor._on = end, self
        return tensor

    def copy_out(self, byte_count):
        """Waits for the device, and copies so many bytes to the host."""
        end, free = self._device.copy(byte_count, False, self._pinned)
        self._device.wait(max(end, free, self._device.end()), False)

    def _forward(self, *args, **kwargs):
        inputs = list(_tensors((args, kwargs)))
        if not inputs or inputs[0].dim() == 0:
            raise TypeError("an emulated model needs a tensor whose first dimension counts the samples")
        ready = [t._ready if isinstance(t, DeviceTensor) else self.copy_in(t)._ready for t in inputs]
        outputs = self._outputs(len(inputs[0]), args, kwargs)
        try:
            _, _, launched = self._device.forward(len(inputs[0]), max(ready))
        except MemoryError as error:
            raise OutOfMemory(str(error)) from None
        self._device.wait(launched, self._burn)
        return outputs

    def _backward(self):
        end, self._reduced, launched = self._device.backward(0)
        self._device.wait(launched, self._burn)
        if self._world > 1:  # ranks meet when each has computed its gradients
            self._device.wait(end, False)

    def _wrap_optimizer(self, optimizer):
        step = optimizer.step

        @functools.wraps(step)
        def emulated(_, *args, **kwargs):
            result = step(*args, **kwargs)  # there are no gradients, so this computes nothing; a closure trains
            if self._world > 1:
                torch.distributed.barrier()
            _, _, launched = self._device.optimizer(self._reduced)
            self._device.wait(launched, self._burn)
            return result

        optimizer.step = types.MethodType(emulated, optimizer)  # schedulers take it apart

    # --- results --------------------------------------------------------------------------------------

    def _outputs(self, batch, args, kwargs):
        """Zeros in the shapes of the model's results."""
        mode = self._model.training, tuple((t.dim(), t.dtype, *t.shape[1:]) for t in _tensors((args, kwargs)))
        if mode not in self._shapes:
            self._shapes[mode] = self._probe(batch, args, kwargs)
        found = []
        tree = _map(self._shapes[mode], lambda shape: shape.make(batch, found))
        grown = [t for t in found if t.is_floating_point()]
        if torch.is_grad_enabled() and self._model.training and grown:
            grown = iter(_Step.apply(self, self._anchor, *grown))
            found = [next(grown) if t.is_floating_point() else t for t in found]
        rest = iter([self._mark(t) for t in found])
        return _map(tree, lambda _: next(rest))

    def _mark(self, tensor):
        tensor = tensor.as_subclass(DeviceTensor)
        tensor._on = self
        return tensor

    def _probe(self, batch, args, kwargs):
        """Runs the model on the first samples, or on one twice."""
        def few(tensor):
            tensor = tensor.as_subclass(torch.Tensor)
            if tensor.dim() == 0 or len(tensor) != batch:
                return tensor
            return tensor[:_PROBE] if batch >= _PROBE else torch.cat([tensor] * _PROBE)
        with torch.no_grad():
            results = self._real(*_map(args, few), **_map(kwargs, few))
        return _map(results, _Shape)


class _Shape:
    """The shape of one result; its first dimension counts samples if the model returned as many as it got."""

    def __init__(self, tensor):
        self.samples = tensor.dim() > 0 and len(tensor) == _PROBE
        self.shape, self.dtype = tensor.shape, tensor.dtype

    def make(self, batch, into):
        into.append(torch.zeros((batch, *self.shape[1:]) if self.samples else self.shape, dtype=self.dtype))
        return into[-1]


class _Step(torch.autograd.Function):
    """Connects the results of forward with backward."""

    @staticmethod
    def forward(ctx, accelerator, anchor, *tensors):  # pylint: disable=arguments-differ,unused-argument
        ctx.accelerator, ctx.count = accelerator, len(tensors)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx, *grads):  # pylint: disable=unused-argument
        ctx.accelerator._backward()
        return (None,) * (2 + ctx.count)


# --- tensors ----------------------------------------------------------------------------------------------

def _tensors(tree):
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from _tensors(value)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from _tensors(value)


def _map(tree, change):
    """The same structure with every tensor (or shape) changed."""
    if isinstance(tree, (torch.Tensor, _Shape)):
        return change(tree)
    if isinstance(tree, dict):
        changed = {key: _map(value, change) for key, value in tree.items()}
        return changed if type(tree) is dict else type(tree)(**changed)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_map(value, change) for value in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(_map(value, change) for value in tree)
    return tree


_READS = {torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__float__, torch.Tensor.__int__,
          torch.Tensor.__bool__, torch.Tensor.__index__, torch.Tensor.__repr__, torch.Tensor.__array__, torch.Tensor.__format__}


class DeviceTensor(torch.Tensor):
    """A tensor of the emulated device. What is computed from it is on the device, too; reading its numbers waits."""
    _ready = 0  # when its copy to the device ends
    _on = None

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        mine = [t for t in _tensors((args, kwargs)) if isinstance(t, DeviceTensor)]
        on = next((t._on for t in mine if t._on is not None), None)
        if func in _READS and on is not None:
            on.synchronize()
        result = super().__torch_function__(func, types, args, kwargs)
        ready = max((t._ready for t in mine), default=0)
        for tensor in _tensors(result) if isinstance(result, (torch.Tensor, tuple, list)) else ():
            if isinstance(tensor, DeviceTensor) and tensor._on is None:
                tensor._on, tensor._ready = on, ready
        return result


def _distributed():
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _fetch_state(module, state, prefix, local):  # pylint: disable=unused-argument
    """A state_dict comes from the device."""
    if not prefix:
        module._terrane_emu.copy_out(sum(t.numel() * t.element_size() for t in _tensors(state)))


# --- "cuda" -----------------------------------------------------------------------------------------------

def _is_cuda(target):
    return isinstance(target, (str, torch.device)) and str(target).partition(":")[0] == "cuda" or type(target) is int


def pretend():
    """From here on "cuda" in tensor.to, tensor.cuda, module.to and module.cuda means the emulated device, if the machine has
    no real one. wrap calls this; call it first in a script that moves its model before."""
    if torch.cuda.is_available() or hasattr(torch.Tensor.to, "_terrane_emu"):
        return

    def moved(tensor, non_blocking):
        on = _current() if _current is not None else None
        if isinstance(tensor, DeviceTensor) or isinstance(tensor, torch.nn.Parameter) or on is None:
            return tensor
        return on.copy_in(tensor, non_blocking)

    def tensor_to(self, *args, **kwargs):
        target = kwargs.get("device", args[0] if args else None)
        if not _is_cuda(target):
            back = isinstance(self, DeviceTensor) and isinstance(target, (str, torch.device))
            result = real_to(self, *args, **kwargs)
            return _to_host(result) if back else result
        args = args[1:] if args and _is_cuda(args[0]) else args
        kwargs = {key: value for key, value in kwargs.items() if key != "device"}
        result = moved(self, kwargs.get("non_blocking", False))
        return real_to(result, *args, **kwargs) if args or kwargs.keys() - {"non_blocking"} else result

    def tensor_cuda(self, device=None, non_blocking=False, memory_format=None):  # pylint: disable=unused-argument
        return moved(self, non_blocking)

    def tensor_cpu(self, *args, **kwargs):
        result = real_cpu(self, *args, **kwargs)
        return _to_host(result) if isinstance(self, DeviceTensor) else result

    def module_to(self, *args, **kwargs):
        if not _is_cuda(kwargs.get("device", args[0] if args else None)):
            return real_module_to(self, *args, **kwargs)
        rest = {key: value for key, value in kwargs.items() if key not in ("device", "non_blocking")}
        args = args[1:] if args and _is_cuda(args[0]) else args
        return real_module_to(self, *args, **rest) if args or rest else self

    def module_cuda(self, device=None):  # pylint: disable=unused-argument
        return self

    def synchronize(device=None):  # pylint: disable=unused-argument
        on = _current() if _current is not None else None
        if on is not None:
            on.synchronize()

    real_to, real_cpu, real_module_to = torch.Tensor.to, torch.Tensor.cpu, torch.nn.Module.to
    tensor_to._terrane_emu = True
    torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu = tensor_to, tensor_cuda, tensor_cpu
    torch.nn.Module.to, torch.nn.Module.cuda = module_to, module_cuda
    torch.cuda.synchronize = synchronize


def _to_host(tensor):
    on = tensor._on if isinstance(tensor, DeviceTensor) else None
    if on is not None:
        on.copy_out(tensor.numel() * tensor.element_size())
    return tensor.as_subclass(torch.Tensor)
