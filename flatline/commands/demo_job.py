"""The demo's job: a launcher that waits for its trainer, and never reads the pipe it gave the trainer as stderr.

Started by `flatline demo` as a script, so it imports nothing of flatline. Python alone is enough to run it.
"""

import subprocess
import sys


def train() -> None:
    """Log a few steps, then warn about every sample until the pipe is full: there it stops for ever."""
    for step in range(3):
        print(f"epoch 0 step {step} loss {2.31 - step * 0.04:.2f}", flush=True)
    sample = 0
    while True:
        print(f"WARNING: sample {sample} has no caption, skipping it", file=sys.stderr, flush=True)
        sample += 1


def launch() -> int:
    """Start the trainer and wait for it: a `wait()` beside an unread pipe."""
    print("Starting job...", flush=True)
    with open("train.log", "w", encoding="utf-8") as log:
        trainer = subprocess.Popen([sys.executable, __file__, "--trainer"], stdout=log, stderr=subprocess.PIPE)
    return trainer.wait()


if __name__ == "__main__":
    if "--trainer" in sys.argv:
        train()
    else:
        sys.exit(launch())
