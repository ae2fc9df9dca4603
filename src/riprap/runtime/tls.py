"""A self-signed certificate for one run.

It is valid for a fixed name (`wire.CERTIFICATE_NAME`) and for the given hosts, and is the only one that the run's
clients trust. The `openssl` command creates it: it exists wherever Spark runs, and saves a library. The key is on disk
only while it is created, in a private directory.
"""

import ipaddress
import subprocess
from collections.abc import Iterable
from pathlib import Path

from riprap.base.errors import MissingPrerequisite
from riprap.base.scratch import scratch
from riprap.runtime.run_context import Tls
from riprap.runtime.wire import CERTIFICATE_NAME

_DAYS = 3650  # a run may be long, and its certificate has no other use


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
            raise MissingPrerequisite(f"`openssl` could not create a certificate: {error.stderr.strip()}") from error
        return Tls(certificate.read_bytes(), key.read_bytes())


def _alternative(host: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        return f"DNS:{host}"
