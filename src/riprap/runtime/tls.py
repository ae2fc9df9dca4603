"""A certificate made for one run.

It signs itself, is valid under the run's own name (`wire.CERTIFICATE_NAME`) and for the given hosts, and is the only
one that the run's clients trust. Made with the `openssl` command: that is everywhere where Spark is, and saves a
library that would be needed for nothing else. The key is on the disk, in a private directory, only while it is made.
"""

import ipaddress
import subprocess
from collections.abc import Iterable
from pathlib import Path

from riprap.base.errors import MissingPrerequisite
from riprap.base.scratch import scratch
from riprap.runtime.run_context import Tls
from riprap.runtime.wire import CERTIFICATE_NAME

_DAYS = 3650  # a run may take long, and its certificate serves nothing else


def generate_tls(hosts: Iterable[str]) -> Tls:
    names = ",".join([f"DNS:{CERTIFICATE_NAME}", *(_alternative(host) for host in hosts)])
    with scratch("tls") as directory:
        certificate, key = Path(directory, "certificate.pem"), Path(directory, "key.pem")
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        command += ["-days", str(_DAYS), "-subj", f"/CN={CERTIFICATE_NAME}", "-addext", f"subjectAltName={names}"]
        command += ["-keyout", str(key), "-out", str(certificate)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError as error:
            raise MissingPrerequisite("TLS needs the `openssl` command, which is not on the path") from error
        except subprocess.CalledProcessError as error:
            raise MissingPrerequisite(f"`openssl` could not make a certificate: {error.stderr.strip()}") from error
        return Tls(certificate.read_bytes(), key.read_bytes())


def _alternative(host: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        return f"DNS:{host}"
