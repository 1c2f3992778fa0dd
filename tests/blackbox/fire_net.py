# SPDX-License-Identifier: Apache-2.0
"""A network of namespaces for a cluster under fire: each role and the clients are hosts of their own, joined by a
bridge, and packets to or from a host can be cut off, lost or delayed.

nftables inside of the host's namespace drops packets. netem delays them where the kernel has it,
else a token bucket so narrow that packets queue.
"""
import os
import subprocess

from box import TERRANE
from fire import Fire, set_keys

NET = "10.213.77"
NEEDED = ("ip", "tc", "nft")


def sh(*words, check=True, **options):
    return subprocess.run([*map(str, words)], check=check, capture_output=True, text=True, **options)


def missing():
    """The reason why this machine cannot have such a network, or None."""
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    for tool in NEEDED:
        if sh("sh", "-c", f"command -v {tool}", check=False).returncode != 0:
            return f"needs {tool}: ./dev deps fire"
    probe = f"tfp{os.getpid()}"
    if sh("ip", "netns", "add", probe, check=False).returncode != 0:
        return "this process may not create network namespaces"
    try:
        rules = sh("ip", "netns", "exec", probe, "nft", "add", "table", "inet", "fire", check=False)
        return None if rules.returncode == 0 else "the kernel has no nftables"
    finally:
        sh("ip", "netns", "del", probe)


class Network:
    """A network of hosts by name. Use it in a `with`."""

    def __init__(self, names):
        self.tag = f"tf{os.getpid()}"
        self.hosts = {name: i for i, name in enumerate(names, 1)}

    def space(self, name):
        return f"{self.tag}-{name}"

    def address(self, name):
        return f"{NET}.{self.hosts[name]}"

    def inside(self, name):
        """The command that runs another one on a host."""
        return ("ip", "netns", "exec", self.space(name))

    def __enter__(self):
        try:
            self.make()
        except subprocess.CalledProcessError:
            self.__exit__()
            raise
        return self

    def make(self):
        switch = self.space("switch")
        sh("ip", "netns", "add", switch)
        sh("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        sh("ip", "-n", switch, "link", "set", "br0", "up")
        for name, number in self.hosts.items():
            space = self.space(name)
            sh("ip", "netns", "add", space)
            sh("ip", "-n", switch, "link", "add", f"p{number}", "type", "veth", "peer", "name", "eth0",
               "netns", space)
            sh("ip", "-n", switch, "link", "set", f"p{number}", "master", "br0", "up")
            sh("ip", "-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            sh("ip", "-n", space, "link", "set", "lo", "up")
            sh("ip", "-n", space, "link", "set", "eth0", "up")

    def __exit__(self, *_):
        for name in [*self.hosts, "switch"]:
            sh("ip", "netns", "del", self.space(name), check=False)
        left = [line for line in sh("ip", "netns", "list").stdout.split() if line.startswith(self.tag)]
        assert not left, f"namespaces left: {left}"

    def rules(self, name, into="", out=""):
        """Sets what a host drops of incoming and outgoing packets, as nftables rules: "" nothing, "drop" everything."""
        text = "flush ruleset\ntable inet fire {\n"
        for hook, device, rule in (("input", "iif", into), ("output", "oif", out)):
            text += f"chain {hook} {{\ntype filter hook {hook} priority 0;\n{device} lo accept\n{rule}\n}}\n"
        sh(*self.inside(name), "nft", "-f", "-", input=text + "}\n")

    def apart(self, a, b):
        """Cuts two hosts off from each other; all other hosts still reach both."""
        self.rules(a, f"ip saddr {self.address(b)} drop")
        self.rules(b, f"ip saddr {self.address(a)} drop")

    def delay(self, name, milliseconds):
        device = ("dev", "eth0", "root")
        netem = sh(*self.inside(name), "tc", "qdisc", "replace", *device, "netem", "delay", f"{milliseconds}ms",
                   f"{milliseconds // 4}ms", check=False)
        if netem.returncode != 0:
            sh(*self.inside(name), "tc", "qdisc", "replace", *device, "tbf", "rate", "8mbit", "burst", "16kb",
               "latency", f"{4 * milliseconds}ms")

    def mend(self):
        for name in self.hosts:
            sh(*self.inside(name), "nft", "flush", "ruleset")
            sh(*self.inside(name), "tc", "qdisc", "del", "dev", "eth0", "root", check=False)


class NetFire(Fire):
    """A cluster with a host for each process, and one for all clients."""

    def __init__(self, folder, network, *shape):
        super().__init__(folder, *shape)
        self.network, self.children = network, []
        self.can_collect = False  # the metrics of each process stay on the loopback address of its host
        self.box.under = network.inside("client")

    def prepare(self):
        super().prepare()
        for name in self.roles():
            path = self.box.folder / "conf" / f"{name}.ini"
            text = path.read_text()
            for key, host in (("listen", name), ("metadata", "meta")):
                for line in text.splitlines():
                    if line.startswith(f"{key} = 127.0.0.1:"):
                        text = text.replace(line, line.replace("127.0.0.1", self.network.address(host)))
            path.write_text(text)
        cluster = self.box.folder / "cluster.ini"
        port = cluster.read_text().split("127.0.0.1:")[1].split()[0]
        set_keys(cluster, {"metadata": f"{self.network.address('meta')}:{port}"})

    def start(self):
        """Starts the processes as `terrane up --procs` does, each on its host."""
        running = self.box.pids()
        for name in self.roles():
            if name in running and os.path.exists(f"/proc/{running[name]}"):
                continue
            config = self.box.folder / "conf" / f"{name}.ini"
            with open(self.box.folder / "log" / f"{name}.log", "ab") as log:
                process = subprocess.Popen(
                    [*self.network.inside(name), TERRANE, name.split("-")[0], "--config", config],
                    cwd=self.box.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            self.children.append(process)
            (self.box.folder / "run" / f"{name}.pid").write_text(f"{process.pid}\n")

    def __exit__(self, *why):
        self.network.mend()
        super().__exit__(*why)
        for process in self.children:
            process.wait(120)
