"""What a session that Riprap builds keeps to itself."""

import logging

from riprap.spark import session


def test_the_bridge_to_the_jvm_logs_no_tracebacks():
    """py4j logs what it raises anyway, also on the root logger."""
    found = {
        path: session._not_from_py4j(logging.LogRecord("root", logging.ERROR, path, 1, "x", None, None))
        for path in ("/lib/py4j/java_gateway.py", "/lib/app.py")
    }
    assert found == {"/lib/py4j/java_gateway.py": False, "/lib/app.py": True}
