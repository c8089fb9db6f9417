"""Open MPI and MPICH of Debian through UCX: programs of ours with 4 ranks, each a process with the device open."""

import os
import pathlib
import re
import subprocess
import tempfile

import tap
from pair import End
from tap import check

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests/clients/mpi"
PROGRAMS = ("ring", "collectives", "one_sided")
RANKS = 4
LOSS = "drop rate=1%\nduplicate rate=1%\nreorder=3 rate=1%\n"
# By default UCX lets RC wait for 1 s before it sends again.
TRANSPORTS = {"rc_verbs": {"UCX_TLS": "rc_v,self", "UCX_RC_TIMEOUT": "10ms"}, "ud_verbs": {"UCX_TLS": "ud_v,self"}}
# Each rank ends without waiting for the others to have all acknowledgements, and those of UD are UCX's own, given by a
# process that goes on: the last rank to end may wait for one in vain.
LEAVES_EARLY = ("openmpi", "one_sided", "ud_verbs")

MPIS = {
    # By UCX alone, without the shared memory that ranks of one machine would rather use; in containers, too, where
    # there is root and no ssh.
    "openmpi": (["--oversubscribe"],
                {"OMPI_MCA_pml": "ucx", "OMPI_MCA_osc": "ucx", "OMPI_MCA_plm": "isolated",
                 "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}),
    "mpich": ([], {"MPIR_CVAR_NOLOCAL": "1"}),
}


class Cases:
    def __init__(self, roci, seconds, needs):
        self.roci, self.seconds, self.needs = roci, seconds, needs
        self.folder = tempfile.TemporaryDirectory()

    def compiled(self, mpi, program):
        compiler = f"mpicc.{mpi}"
        self.needs(compiler)
        out = pathlib.Path(self.folder.name) / f"{program}.{mpi}"
        if not out.exists():
            subprocess.run([compiler, "-O2", "-I", ROOT, "-o", out, SOURCES / f"{program}.c"], check=True)
        return out

    def ranks(self, mpi, program, transport, run_flags=(), repeats=3):
        """Every rank got what it should, and by way of the device."""
        self.needs(f"mpirun.{mpi}")
        if (mpi, program, transport) == LEAVES_EARLY:
            raise tap.Skip("Open MPI's one-sided operations end before UCX has all acknowledgements of datagrams")
        flags, variables = MPIS[mpi]
        variables = {**variables, **TRANSPORTS[transport]}
        command = [f"mpirun.{mpi}", *flags, "-np", RANKS, self.compiled(mpi, program), repeats]
        environment = ["env", *(f"{name}={value}" for name, value in variables.items())]
        end = End(self.roci, f"cable:test.{os.getpid()}.mpi", command, run_flags, environment)
        try:
            status = end.wait(self.seconds)
            check(status == 0, f"exit {status}\n{end.text()}")
            said = re.search(rf"{RANKS} ranks, 0 errors, at least (\d+) packets from each", end.text())
            check(said and int(said.group(1)) > 100, end.text())
        finally:
            end.end()

    def with_loss(self, mpi, program, transport):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "faults"
            file.write_text(LOSS)
            self.ranks(mpi, program, transport, ["--faults", str(file)], repeats=1)

    def all(self):
        for mpi in MPIS:
            for program in PROGRAMS:
                for transport in TRANSPORTS:
                    yield (f"{mpi} over {transport}: {program}",
                           lambda m=mpi, p=program, t=transport: self.ranks(m, p, t))
                    yield (f"{mpi} over {transport}: {program}, with faults",
                           lambda m=mpi, p=program, t=transport: self.with_loss(m, p, t))
                yield (f"{mpi}: {program}, all ranks of one host",
                       lambda m=mpi, p=program: self.ranks(m, p, "rc_verbs", ["--host", "alpha"]))
