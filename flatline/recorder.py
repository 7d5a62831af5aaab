"""``python -m flatline.recorder [-m MODULE | -c CODE | SCRIPT] [ARG ...]``: run a program of Python with the recorder.

The process becomes that program, in an environment that loads the recorder into it and into every Python it starts.
Python 3.7 syntax: the job's Python runs this.
"""

import os
import sys


def folder() -> str:
    """Where the recorder's ``sitecustomize.py`` lies: what belongs first on PYTHONPATH. "" when it is not there."""
    import importlib.util

    spec = importlib.util.find_spec("flatline.collector")
    places = list(spec.submodule_search_locations or ()) if spec else []
    found = [os.path.join(place, "recorder", "start") for place in places]
    return next((path for path in found if os.path.exists(os.path.join(path, "sitecustomize.py"))), "")


def environment(given: "dict[str, str]") -> "dict[str, str]":
    """`given` with the recorder first on PYTHONPATH; itself when there is no recorder, or it is there already."""
    here = folder()
    path = given.get("PYTHONPATH", "")
    if not here or here in path.split(os.pathsep):
        return dict(given)
    return {**given, "PYTHONPATH": here + os.pathsep + path if path else here}


def compile_once() -> None:
    """Where no bytecode may be written at a start (PYTHONDONTWRITEBYTECODE), each would compile the recorder again."""
    import importlib.util
    import py_compile

    path = os.path.join(folder(), "sitecustomize.py")
    try:
        compiled = importlib.util.cache_from_source(path)
        if not os.path.exists(compiled) or os.stat(compiled).st_mtime < os.stat(path).st_mtime:
            py_compile.compile(path, doraise=True)
    except (OSError, py_compile.PyCompileError, NotImplementedError):  # a folder that is not ours: slower, that is all
        pass


def main(argv: "list[str]") -> int:
    """Become the program. Returns only when there is none to become."""
    if not argv:
        sys.stderr.write((__doc__ or "") + "\n")
        return 2
    compile_once()
    os.execve(sys.executable, [sys.executable, *argv], environment(dict(os.environ)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
